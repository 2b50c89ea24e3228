// Runs the command `plumbline` as a user does: a process with exit code, output and errors.
#pragma once

#include <string>

#include "model/base/text_file.h"
#include "tests/support/folders.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {

struct CommandResult {
  int exit_code = 0;
  std::string output, errors;
};

inline std::string plumbline_program() { return build_folder() + "/plumbline"; }

// Returns the path of a plan that is trained within seconds.
inline std::string small_training_plan() { return source_folder() + "/tests/golden/inputs/small-training.toml"; }

// Runs `words` (mpirun), then plumbline's name, then `arguments`, as a shell splits them.
inline CommandResult plumbline(const std::string& arguments, const std::string& words = "") {
  const TemporaryDirectory scratch;
  const std::string out = (scratch.path() / "out").string(), errors = (scratch.path() / "errors").string();
  const int code = run_shell(words + " " + plumbline_program() + " " + arguments + " > " + out + " 2> " + errors);
  return {code, model::read_file(out).value(), model::read_file(errors).value()};
}

}  // namespace plumbline::tests
