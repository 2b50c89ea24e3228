// The version in every output and of the packages, and the version of the output contract. CMakeLists.txt reads the
// first one from here; CHANGELOG.md lists what each version brought.
#pragma once

#include <string_view>

namespace plumbline::model {

inline constexpr std::string_view version = "0.2.0";
inline constexpr int schema = 1;

}  // namespace plumbline::model
