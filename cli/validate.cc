#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/validate/case_evaluation.h"
#include "calibrate/validate/component_case.h"
#include "calibrate/validate/step_case.h"
#include "calibrate/validate/step_comparison.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/make_profiles.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "reports/text/compare/held_out_text.h"
#include "reports/text/compare/validation_report.h"

namespace plumbline::cli {

namespace {

constexpr int tolerance_exit = 3;

struct Arguments {
  std::vector<std::string> cases;
  Outputs outputs;
};

model::Result<std::vector<std::string>> wanted_files(const std::vector<std::string>& names) {
  if (names.empty()) return shipped_case_files();
  std::vector<std::string> files;
  for (const std::string& name : names) {
    auto path = TRY(resolve(Shipped::validation_case, name));
    files.push_back(std::move(path));
  }
  return files;
}

struct Outcome {
  std::vector<calibrate::EvaluatedCase> figures;
  std::vector<calibrate::StepComparison> steps;
  std::vector<calibrate::ComponentComparison> components;
};

model::Result<Outcome> run_files(const std::vector<std::string>& files) {
  InputsReader reader;
  calibrate::CaseRuns runs(
      [&](const std::string& plan, const std::string& profile) { return reader.load(plan, {}, profile); });
  Outcome outcome;
  for (const std::string& file : files) {
    if (calibrate::is_step_case(file)) {
      auto compared = TRY(compare_case_steps(file));
      outcome.steps.push_back(std::move(compared));
      continue;
    }
    if (calibrate::is_component_case(file)) {
      const auto definition = TRY(calibrate::load_component_case(file));
      calibrate::ProfileMaker maker(TRY(recipe_folders()));
      auto compared = TRY(calibrate::compare_components(definition, maker));
      outcome.components.push_back(std::move(compared));
      continue;
    }
    const auto definition = TRY(read_case(file));
    auto evaluated = TRY(runs.evaluate(definition));
    outcome.figures.push_back(std::move(evaluated));
  }
  return outcome;
}

model::Result<int> run(const Arguments& arguments) {
  const auto files = TRY(wanted_files(arguments.cases));
  const auto outcome = TRY(run_files(files));
  TRY(arguments.outputs.write(
      {{"--json", [&] { return reports::validation_json(outcome.figures, outcome.steps, outcome.components); }}}));
  int exit_code = 0;
  bool first = true;
  const auto show = [&](const std::string& name, bool holds, const std::string& table) {
    if (!arguments.outputs.to_stdout()) fmt::print("{}{}", first ? "" : "\n", table);
    first = false;
    if (holds) return;
    exit_code = tolerance_exit;
    fmt::print(stderr, "plumbline: tolerance exceeded: {}\n", name);
  };
  for (const calibrate::EvaluatedCase& row : outcome.figures)
    show(row.definition.name, row.holds(), reports::validation_table(row));
  for (const calibrate::StepComparison& row : outcome.steps)
    show(row.definition.name, row.holds(), reports::step_table(row));
  for (const calibrate::ComponentComparison& row : outcome.components)
    show(row.definition.name, row.holds(), reports::component_table(row));
  return exit_code;
}

}  // namespace

void add_validate(CLI::App& root, int& exit_code) {
  CLI::App* verb = root.add_subcommand("validate", "Compare predictions with published and measured figures");
  const auto arguments = std::make_shared<Arguments>();
  verb->add_option("CASES", arguments->cases, "Case files, or names of shipped cases (default: all shipped)");
  arguments->outputs.add(*verb, "--json", "Write the comparison as JSON to a file, or - for stdout");
  verb->footer(
      "Every figure is predicted with each profile of its case. Exit code 3 when the last one, the plan's own,\n"
      "misses a tolerance.\n\n"
      "Examples:\n"
      "  plumbline validate\n"
      "  plumbline validate deepseek-v3-2048xh800 --json -\n"
      "  plumbline validate published-steps\n"
      "  plumbline validate components\n"
      "  plumbline validate my-cluster-case.toml");
  verb->callback([arguments, &exit_code] { exit_code = exit_of(run(*arguments)); });
}

}  // namespace plumbline::cli
