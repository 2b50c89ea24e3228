// The command `plumbline`.
#include <CLI/CLI.hpp>
#include <string>

#include "cli/verb.h"
#include "model/version.h"

int main(int argc, char** argv) {
  namespace cli = plumbline::cli;
  CLI::App app{"plumbline predicts what training a large model costs, and proves it.", "plumbline"};
  app.set_version_flag("--version", std::string(plumbline::model::version));
  app.require_subcommand(1);
  int exit_code = 0;
  cli::add_plan(app, exit_code);
  cli::add_simulate(app, exit_code);
  cli::add_memory(app, exit_code);
  cli::add_schedule(app, exit_code);
  cli::add_sweep(app, exit_code);
  cli::add_validate(app, exit_code);
  cli::add_compare(app, exit_code);
  cli::add_measure(app, exit_code);
  cli::add_calibrate(app, exit_code);
  cli::add_show(app, exit_code);
  cli::add_import(app, exit_code);
  cli::add_export(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    constexpr int wrong_input = 1;
    return app.exit(error) == 0 ? 0 : wrong_input;
  }
  return exit_code;
}
