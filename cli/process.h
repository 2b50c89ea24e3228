// Another program of this project, run to its end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::cli {

// The program `name` beside the running one; nullopt when it was not built.
std::optional<std::string> find_program(const std::string& name);

// Runs it with our stdin, stdout and stderr, and returns its exit code (128 + signal when it was killed). An
// interrupt from the terminal reaches the program alone; we go on when it has ended.
model::Result<int> run_program(const std::string& path, const std::vector<std::string>& arguments);

}  // namespace plumbline::cli
