#include <CLI/CLI.hpp>
#include <sstream>
#include <string>

#include "cli/verb.h"
#include "cli/world.h"
#include "model/base/version.h"

namespace plumbline::cli {

real::host::DeviceOptions World::device(real::host::DeviceOptions wanted) const {
  if (simulated.now == nullptr) return wanted;
  wanted.clock = real::host::ClockKind::simulated;
  wanted.simulated = simulated;
  wanted.threads = false;
  return wanted;
}

int command(int argc, char** argv, const World& world) {
  CLI::App app{"plumbline predicts what training a large model costs, and proves it.", "plumbline"};
  app.set_version_flag("--version", std::string(model::version));
  app.require_subcommand(1);
  int exit_code = 0;
  add_plan(app, exit_code);
  add_simulate(app, exit_code);
  add_memory(app, exit_code);
  add_schedule(app, exit_code);
  add_sweep(app, exit_code);
  add_validate(app, exit_code);
  add_compare(app, exit_code);
  add_measure(app, exit_code, world);
  add_calibrate(app, exit_code);
  add_run(app, exit_code, world);
  add_show(app, exit_code);
  add_import(app, exit_code);
  add_export(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    constexpr int wrong_input = 1;
    std::ostringstream unsaid;  // one process of a job tells what all of them see
    const int code = world.speaks ? app.exit(error) : app.exit(error, unsaid, unsaid);
    return code == 0 ? 0 : wrong_input;
  }
  return exit_code;
}

}  // namespace plumbline::cli
