#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/cases.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/validation.h"
#include "cli/verb.h"
#include "sim/simulate.h"

namespace plumbline::cli {

namespace {

constexpr int tolerance_exit = 3;

struct Arguments {
  std::vector<std::string> cases;
  std::string json;
};

// What a plan gives with a profile; several cases may look at the same step.
struct Run {
  sim::Inputs inputs;
  model::StepResult result;
};
using Runs = std::map<std::pair<std::string, std::string>, Run>;  // by plan and profile

model::Result<const Run*> run_of(Runs& runs, const std::string& plan, const std::string& profile) {
  const auto found = runs.find({plan, profile});
  if (found != runs.end()) return &found->second;
  auto inputs = load_inputs(plan, {}, profile);
  if (!inputs) return tl::unexpected(inputs.error());
  auto simulation = sim::simulate(*inputs, sim::Fidelity::step, false);
  if (!simulation) return tl::unexpected(simulation.error());
  return &runs.try_emplace({plan, profile}, Run{std::move(*inputs), std::move(simulation->result)}).first->second;
}

model::Result<EvaluatedCase> run_case(Runs& runs, const calibrate::ValidationCase& definition) {
  std::vector<model::StepResult> results;
  model::StepResult naive;
  for (const std::string& profile : definition.profiles) {
    const auto run = run_of(runs, definition.plan, profile);
    if (!run) return tl::unexpected(run.error());
    results.push_back((*run)->result);
    const sim::Inputs& inputs = (*run)->inputs;
    naive = calibrate::naive_result(inputs.plan, inputs.architecture, inputs.cluster, definition.naive_mfu);
  }
  return evaluate(definition, results, naive);
}

model::Result<std::vector<calibrate::ValidationCase>> wanted_cases(const std::vector<std::string>& names) {
  if (names.empty()) return shipped_cases();
  std::vector<calibrate::ValidationCase> cases;
  for (const std::string& name : names) {
    const auto path = resolve_case(name);
    if (!path) return tl::unexpected(path.error());
    auto loaded = calibrate::load_case(*path);
    if (!loaded) return tl::unexpected(loaded.error());
    cases.push_back(std::move(*loaded));
  }
  return cases;
}

int run(const Arguments& arguments) {
  const auto cases = wanted_cases(arguments.cases);
  if (!cases) return report(cases.error());
  Runs runs;
  std::vector<EvaluatedCase> evaluated;
  for (const calibrate::ValidationCase& definition : *cases) {
    auto outcome = run_case(runs, definition);
    if (!outcome) return report(outcome.error());
    evaluated.push_back(std::move(*outcome));
  }
  if (!arguments.json.empty()) {
    if (const auto written = write_output(arguments.json, validation_json(evaluated)); !written)
      return report(written.error());
  }
  int exit_code = 0;
  for (const EvaluatedCase& outcome : evaluated) {
    const bool first = &outcome == &evaluated.front();
    if (arguments.json != "-") fmt::print("{}{}", first ? "" : "\n", validation_table(outcome));
    if (outcome.holds()) continue;
    exit_code = tolerance_exit;
    fmt::print(stderr, "plumbline: tolerance exceeded: {}\n", outcome.definition.name);
  }
  return exit_code;
}

}  // namespace

CLI::App* add_validate(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("validate", "Compare predictions with published and measured figures");
  const auto arguments = std::make_shared<Arguments>();
  verb->add_option("CASES", arguments->cases, "Case files, or names of shipped cases (default: all shipped)");
  verb->add_option("--json", arguments->json, "Write the comparison as JSON to a file, or - for stdout");
  verb->footer(
      "Every figure is predicted with each profile of its case. Exit code 3 when the last one, the plan's own,\n"
      "misses a tolerance.\n\n"
      "Examples:\n"
      "  plumbline validate\n"
      "  plumbline validate deepseek-v3-2048xh800 --json -\n"
      "  plumbline validate my-cluster-case.toml");
  verb->callback([arguments, &exit_code] { exit_code = run(*arguments); });
  return verb;
}

}  // namespace plumbline::cli
