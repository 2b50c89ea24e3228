#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/validate/figure_value.h"
#include "calibrate/validate/step_case.h"
#include "calibrate/validate/step_comparison.h"
#include "cli/cases.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/validation.h"
#include "cli/verb.h"
#include "sim/predict/simulate.h"
#include "sim/step/chunk.h"

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
  std::optional<model::StepResult> step;
  std::optional<calibrate::SingleKernels> kernels;
  std::optional<calibrate::SingleExchanges> exchanges;
};
using Runs = std::map<std::pair<std::string, std::string>, Run>;  // by plan and profile

// The run of a plan and profile with what is needed computed, once.
model::Result<const Run*> run_of(Runs& runs, const std::string& plan, const std::string& profile,
                                 const calibrate::Needs& needs) {
  auto found = runs.find({plan, profile});
  if (found == runs.end()) {
    auto inputs = load_inputs(plan, {}, profile);
    if (!inputs) return tl::unexpected(inputs.error());
    found = runs.try_emplace({plan, profile}, Run{std::move(*inputs), {}, {}, {}}).first;
  }
  Run& run = found->second;
  if (needs.step && !run.step) {
    auto simulation = sim::simulate(run.inputs, sim::Fidelity::step, false);
    if (!simulation) return tl::unexpected(simulation.error());
    run.step = std::move(simulation->result);
  }
  if (needs.kernels && !run.kernels) {
    const auto kernels = calibrate::SingleKernels::make(run.inputs.profile, run.inputs.cluster.device);
    if (!kernels) return tl::unexpected(kernels.error());
    run.kernels = *kernels;
  }
  if (needs.exchanges && !run.exchanges) {
    const auto exchanges = calibrate::SingleExchanges::make(run.inputs.profile, run.inputs.cluster);
    if (!exchanges) return tl::unexpected(exchanges.error());
    run.exchanges = *exchanges;
  }
  return &run;
}

model::Result<EvaluatedCase> run_case(Runs& runs, const calibrate::ValidationCase& definition) {
  const calibrate::Needs needs = calibrate::needs_of(definition);
  std::vector<std::optional<model::TimelineSummary>> chunks;
  chunks.reserve(definition.profiles.size());  // predictions point into it
  std::vector<calibrate::Prediction> predictions;
  calibrate::Naive naive;
  std::optional<double> pair_flops;
  for (const std::string& profile : definition.profiles) {
    const auto run = run_of(runs, definition.plan, profile, needs);
    if (!run) return tl::unexpected(run.error());
    const sim::Inputs& inputs = (*run)->inputs;
    auto& chunk = chunks.emplace_back();
    if (needs.chunk) {
      const auto simulated = sim::run_chunk(inputs, definition.chunk_rank.value_or(sim::ChunkRank{}));
      if (!simulated) return tl::unexpected(simulated.error());
      chunk = model::summarise(simulated->timeline);
      pair_flops = simulated->model_flops;
    }
    predictions.push_back({(*run)->step ? &*(*run)->step : nullptr, chunk ? &*chunk : nullptr,
                           (*run)->kernels ? &*(*run)->kernels : nullptr,
                           (*run)->exchanges ? &*(*run)->exchanges : nullptr});
    naive = calibrate::naive_prediction(inputs.plan, inputs.architecture, inputs.cluster, definition.naive_mfu);
  }
  naive.pair_flops = pair_flops;
  return evaluate(definition, predictions, naive);
}

model::Result<std::vector<std::string>> wanted_files(const std::vector<std::string>& names) {
  if (names.empty()) return shipped_case_files();
  std::vector<std::string> files;
  for (const std::string& name : names) {
    auto path = resolve_case(name);
    if (!path) return tl::unexpected(path.error());
    files.push_back(std::move(*path));
  }
  return files;
}

struct Outcome {
  std::vector<EvaluatedCase> figures;
  std::vector<calibrate::StepComparison> steps;
};

model::Result<Outcome> run_files(const std::vector<std::string>& files) {
  Runs runs;
  Outcome outcome;
  for (const std::string& file : files) {
    if (calibrate::is_step_case(file)) {
      auto compared = compare_case_steps(file);
      if (!compared) return tl::unexpected(compared.error());
      outcome.steps.push_back(std::move(*compared));
      continue;
    }
    const auto definition = read_case(file);
    if (!definition) return tl::unexpected(definition.error());
    auto evaluated = run_case(runs, *definition);
    if (!evaluated) return tl::unexpected(evaluated.error());
    outcome.figures.push_back(std::move(*evaluated));
  }
  return outcome;
}

int run(const Arguments& arguments) {
  const auto files = wanted_files(arguments.cases);
  if (!files) return report(files.error());
  const auto outcome = run_files(*files);
  if (!outcome) return report(outcome.error());
  if (!arguments.json.empty()) {
    if (const auto written = write_output(arguments.json, validation_json(outcome->figures, outcome->steps)); !written)
      return report(written.error());
  }
  int exit_code = 0;
  bool first = true;
  const auto show = [&](const std::string& name, bool holds, const std::string& table) {
    if (arguments.json != "-") fmt::print("{}{}", std::exchange(first, false) ? "" : "\n", table);
    if (holds) return;
    exit_code = tolerance_exit;
    fmt::print(stderr, "plumbline: tolerance exceeded: {}\n", name);
  };
  for (const EvaluatedCase& row : outcome->figures) show(row.definition.name, row.holds(), validation_table(row));
  for (const calibrate::StepComparison& row : outcome->steps) show(row.definition.name, row.holds(), step_table(row));
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
      "  plumbline validate published-steps\n"
      "  plumbline validate my-cluster-case.toml");
  verb->callback([arguments, &exit_code] { exit_code = run(*arguments); });
  return verb;
}

}  // namespace plumbline::cli
