#include "sim/predict/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/cases.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "model/memory/memory.h"
#include "reports/html/html.h"
#include "reports/json/json.h"
#include "reports/text/comparison.h"
#include "reports/text/csv.h"
#include "reports/text/summary.h"
#include "reports/trace/trace.h"

namespace plumbline::cli {

namespace {

constexpr int infeasible_exit = 2;

struct Arguments {
  PlanArguments plan;
  std::string fidelity = "step";
  std::string json, csv, trace, html;
  bool every_link = false;
  std::vector<std::string> degrade;
};

bool ends_with_gz(const std::string& path) { return path.ends_with(".gz"); }

// Published figures stand beside a shipped example as it is; a changed plan has none.
std::vector<reports::Comparison> published(const Arguments& arguments, const sim::Inputs& inputs,
                                           const model::StepResult& result) {
  if (!arguments.plan.overrides.empty()) return {};
  const auto cases = shipped_cases();
  if (!cases) return {};
  return reports::comparisons(*cases, inputs.plan.file, result);
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

// "node3.gpu5.up=0.25@2.5": from 2.5 s on the link has a quarter of its bandwidth.
model::Result<std::vector<sim::NamedLinkChange>> parse_degrade(const std::vector<std::string>& texts) {
  std::vector<sim::NamedLinkChange> changes;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('='), at = text.find('@');
    const auto number = [&](std::size_t first, std::size_t last) -> std::optional<double> {
      if (first > text.size() || last > text.size() || first >= last) return std::nullopt;
      double value = 0;
      const auto [end, error] = std::from_chars(text.data() + first, text.data() + last, value);
      return error == std::errc() && end == text.data() + last ? std::optional(value) : std::nullopt;
    };
    const bool split = equals != std::string::npos && equals > 0;
    const auto factor = split ? number(equals + 1, std::min(at, text.size())) : std::nullopt;
    const auto time = at == std::string::npos ? std::optional(0.0) : number(at + 1, text.size());
    if (!factor || !time)
      return tl::unexpected(model::Error{model::ErrorKind::input, fmt::format("'{}' is not LINK=FACTOR@SECONDS", text),
                                         "", 0, "--degrade", "for example node3.gpu5.up=0.25@2.5; factor 0 fails it"});
    changes.push_back({text.substr(0, equals), *time, *factor});
  }
  return changes;
}

int run(const Arguments& arguments) {
  const auto fidelity = sim::parse_fidelity(arguments.fidelity);
  if (!fidelity) return report(fidelity.error());
  auto inputs = load_inputs(arguments.plan.plan, arguments.plan.overrides);
  if (!inputs) return report(inputs.error());
  inputs->every_link = arguments.every_link;
  const auto changes = parse_degrade(arguments.degrade);
  if (!changes) return report(changes.error());
  if (arguments.plan.print) {
    fmt::print("{}", model::to_toml(inputs->plan));
    return 0;
  }
  const bool record = !arguments.trace.empty() || !arguments.html.empty();
  const auto simulation = *fidelity == sim::Fidelity::step ? sim::simulate_on_network(*inputs, record, *changes)
                                                           : sim::simulate(*inputs, *fidelity, record);
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
  verb->add_flag("--every-link", arguments->every_link,
                 "Load all links of each expert group, not only those of the GPU that stands for it");
  verb->add_option("--degrade", arguments->degrade,
                   "LINK=FACTOR@SECONDS: from then on a link has that share of its bandwidth, 0 fails it (repeatable)");
  verb->footer(
      "Examples:\n"
      "  plumbline simulate examples/deepseek-v3-2048xh800.toml\n"
      "  plumbline simulate deepseek-v3-2048xh800 --fidelity closed-form --json -\n"
      "  plumbline simulate deepseek-v3-2048xh800 --set overlap.communication_sms=24 --trace step.json.gz");
  verb->callback([arguments, &exit_code] { exit_code = run(*arguments); });
  return verb;
}

}  // namespace plumbline::cli
