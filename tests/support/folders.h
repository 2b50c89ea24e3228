// The folders that tests find their inputs and programs in.
#pragma once

#include <string>

namespace plumbline::tests {

// Returns the root of the repository.
std::string source_folder();

// Returns the folder of the build, which has the programs.
std::string build_folder();

}  // namespace plumbline::tests
