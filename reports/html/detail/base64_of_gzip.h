// Bytes in the form in which pages carry them.
#pragma once

#include <string>
#include <string_view>

namespace plumbline::reports {

std::string base64_of_gzip(std::string_view bytes);

}  // namespace plumbline::reports
