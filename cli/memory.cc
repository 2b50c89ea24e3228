#include "model/memory.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "model/layout.h"
#include "model/program.h"
#include "reports/json.h"
#include "reports/summary.h"

namespace plumbline::cli {

namespace {

struct Arguments {
  PlanArguments plan;
  std::string json;
};

int run(const Arguments& arguments) {
  const auto inputs = load_inputs(arguments.plan.plan, arguments.plan.overrides);
  if (!inputs) return report(inputs.error());
  if (arguments.plan.print) {
    fmt::print("{}", model::to_toml(inputs->plan));
    return 0;
  }
  const auto layout = model::make_layout(inputs->plan, inputs->architecture);
  if (!layout) return report(layout.error());
  const auto program = model::compile(inputs->plan, inputs->architecture, *layout);
  if (!program) return report(program.error());
  const model::Memory memory = model::memory(inputs->plan, *layout, *program, inputs->cluster);
  if (!arguments.json.empty()) {
    const auto written = write_output(arguments.json, reports::memory_to_json(memory, inputs->plan));
    if (!written) return report(written.error());
  }
  if (arguments.json != "-") fmt::print("{}", reports::memory_summary(memory, {.colour = colour()}));
  constexpr int infeasible_exit = 2;
  return memory.fits ? 0 : infeasible_exit;
}

}  // namespace

CLI::App* add_memory(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("memory", "Predict memory per pipeline rank: does it fit, and what is largest");
  const auto arguments = std::make_shared<Arguments>();
  add_plan_arguments(*verb, arguments->plan);
  verb->add_option("--json", arguments->json, "Write the result as JSON to a file, or - for stdout");
  verb->footer(
      "Examples:\n"
      "  plumbline memory examples/deepseek-v3-2048xh800.toml\n"
      "  plumbline memory deepseek-v3-2048xh800 --set recompute.policy=none --json -");
  verb->callback([arguments, &exit_code] { exit_code = run(*arguments); });
  return verb;
}

}  // namespace plumbline::cli
