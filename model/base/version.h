// The version in every output, and the version of the output contract.
#pragma once

#include <string_view>

namespace plumbline::model {

inline constexpr std::string_view version = "0.1.0";
inline constexpr int schema = 1;

}  // namespace plumbline::model
