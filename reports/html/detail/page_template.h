// The templates of pages (reports/html/*.template.html) as parts of the library.
#pragma once

#include <string_view>

namespace plumbline::reports {

extern const std::string_view page_template;
extern const std::string_view playground_template;

}  // namespace plumbline::reports
