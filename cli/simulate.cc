#include "sim/simulate.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/cases.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "model/memory.h"
#include "reports/csv.h"
#include "reports/html.h"
#include "reports/json.h"
#include "reports/summary.h"
#include "reports/trace.h"

namespace plumbline::cli {

namespace {

constexpr int infeasible_exit = 2;

struct Arguments {
  PlanArguments plan;
  std::string fidelity = "step";
  std::string json, csv, trace, html;
};

bool ends_with_gz(const std::string& path) { return path.ends_with(".gz"); }

// Published figures stand beside a shipped example as it is; a changed plan has none.
std::vector<reports::Comparison> published(const Arguments& arguments, const sim::Inputs& inputs,
                                           const model::StepResult& result) {
  if (!arguments.plan.overrides.empty()) return {};
  const auto cases = shipped_cases();
  if (!cases) return {};
  return comparisons(*cases, inputs.plan.file, result);
}

model::Result<void> write_files(const Arguments& arguments, const sim::Inputs& inputs,
                                const sim::Simulation& simulation,
                                const std::vector<reports::Comparison>& comparisons) {
  std::vector<std::pair<std::string, std::string>> files;
  if (!arguments.json.empty()) files.emplace_back(arguments.json, reports::to_json(simulation.result, inputs.plan));
  if (!arguments.csv.empty()) files.emplace_back(arguments.csv, reports::to_csv(simulation.result));
  if (!arguments.trace.empty())
    files.emplace_back(arguments.trace,
                       reports::to_trace(simulation.timeline, simulation.rank_names, ends_with_gz(arguments.trace)));
  if (!arguments.html.empty())
    files.emplace_back(arguments.html, reports::to_html(simulation.result, inputs.plan, simulation.timeline,
                                                        simulation.rank_names, comparisons));
  for (const auto& [path, content] : files)
    if (auto written = write_output(path, content); !written) return written;
  return {};
}

int run(const Arguments& arguments) {
  const auto fidelity = sim::parse_fidelity(arguments.fidelity);
  if (!fidelity) return report(fidelity.error());
  const auto inputs = load_inputs(arguments.plan.plan, arguments.plan.overrides);
  if (!inputs) return report(inputs.error());
  if (arguments.plan.print) {
    fmt::print("{}", model::to_toml(inputs->plan));
    return 0;
  }
  const bool record = !arguments.trace.empty() || !arguments.html.empty();
  const auto simulation = sim::simulate(*inputs, *fidelity, record);
  if (!simulation) return report(simulation.error());
  const auto comparisons = published(arguments, *inputs, simulation->result);
  if (const auto written = write_files(arguments, *inputs, *simulation, comparisons); !written)
    return report(written.error());
  const bool stdout_taken =
      arguments.json == "-" || arguments.csv == "-" || arguments.trace == "-" || arguments.html == "-";
  if (!stdout_taken)
    fmt::print("{}", reports::summary(simulation->result, inputs->plan, comparisons, {.colour = colour()}));
  if (!simulation->result.memory.fits) {
    fmt::print(stderr, "{}\n", model::shortage(simulation->result.memory));
    return infeasible_exit;
  }
  return 0;
}

}  // namespace

CLI::App* add_simulate(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("simulate", "Predict one training step: time, memory, cost");
  const auto arguments = std::make_shared<Arguments>();
  add_plan_arguments(*verb, arguments->plan);
  verb->add_option("--fidelity", arguments->fidelity, "closed-form | step")->capture_default_str();
  verb->add_option("--json", arguments->json, "Write the result as JSON to a file, or - for stdout");
  verb->add_option("--csv", arguments->csv, "Write the result as CSV to a file, or - for stdout");
  verb->add_option("--trace", arguments->trace, "Write a trace for Perfetto (compressed when it ends in .gz)");
  verb->add_option("--html", arguments->html, "Write a self-contained page");
  verb->footer(
      "Examples:\n"
      "  plumbline simulate examples/deepseek-v3-2048xh800.toml\n"
      "  plumbline simulate deepseek-v3-2048xh800 --fidelity closed-form --json -\n"
      "  plumbline simulate deepseek-v3-2048xh800 --set overlap.communication_sms=24 --trace step.json.gz");
  verb->callback([arguments, &exit_code] { exit_code = run(*arguments); });
  return verb;
}

}  // namespace plumbline::cli
