// The verbs of the command line, one file each. add_<verb> registers the subcommand with its help and
// examples; when it was chosen, its callback runs it and sets exit_code:
// 0 ok, 1 wrong input, 2 infeasible plan, 3 tolerance exceeded.
#pragma once

#include <CLI/CLI.hpp>

namespace plumbline::cli {

CLI::App* add_schedule(CLI::App& root, int& exit_code);

}  // namespace plumbline::cli
