#include "calibrate/validate/step_comparison.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "calibrate/validate/figure_value.h"
#include "calibrate/validate/validation_case.h"
#include "model/result/compared_time.h"
#include "sim/predict/predictor_pool.h"

namespace plumbline::calibrate {
namespace {

ComparedStep compare(const PublishedStep& step, const StepCase& definition, const InputsOf& inputs_of,
                     sim::Fidelity fidelity, sim::PredictorPool& predictors) {
  ComparedStep compared{step, step.lacking(), {}, "", {}, {}, {}, {}, 0};
  if (!compared.lacking.empty()) return compared;
  const auto plan = step_plan(step, definition);
  if (!plan) return compared.error = plan.error(), compared;
  compared.missing = plan->missing;
  compared.profile = plan->profile;
  const auto inputs = inputs_of(plan->plan, plan->profile);
  if (!inputs) return compared.error = inputs.error(), compared;
  const auto simulation = predictors.with(
      *inputs, [&](sim::Predictor& predictor) { return predictor.simulate(inputs->plan, {.fidelity = fidelity}); });
  if (!simulation) return compared.error = simulation.error(), compared;
  compared.predicted = simulation->result.step.time_s;
  compared.peak_bytes = simulation->result.memory.peak_bytes;
  compared.capacity_bytes = simulation->result.memory.capacity_bytes;
  const Naive naive = naive_prediction(inputs->plan, inputs->architecture, inputs->cluster, definition.naive_mfu);
  compared.baseline = naive.step.step.time_s;
  return compared;
}

// Of the rows that `which` accepts and that were predicted.
template <class Which>
StepSummary summarise(std::string name, const std::vector<ComparedStep>& steps, const Which& which) {
  std::vector<double> predictions;
  std::vector<double> baselines;
  for (const ComparedStep& step : steps) {
    const auto error = step.prediction_error();
    if (!error || !which(step.step)) continue;
    predictions.push_back(*error);
    baselines.push_back(step.baseline_error().value_or(0));
  }
  return {std::move(name), errors_of(predictions), errors_of(baselines)};
}

std::vector<StepSummary> summaries_of(const std::vector<ComparedStep>& steps) {
  std::vector<StepSummary> summaries;
  for (const ComparedStep& step : steps) {
    const std::string& set = step.step.set;
    if (std::ranges::find(summaries, set, &StepSummary::name) != summaries.end()) continue;
    StepSummary summary = summarise(set, steps, [&](const PublishedStep& row) { return row.set == set; });
    if (summary.prediction.rows > 0) summaries.push_back(std::move(summary));
  }
  summaries.push_back(summarise("all", steps, [](const PublishedStep&) { return true; }));
  return summaries;
}

}  // namespace

std::optional<double> ComparedStep::prediction_error() const { return model::relative_error(predicted, step.seconds); }

std::optional<double> ComparedStep::baseline_error() const {
  return predicted ? model::relative_error(baseline, step.seconds) : std::nullopt;
}

std::optional<double> ComparedStep::memory_error() const {
  return model::relative_error(peak_bytes, step.memory_bytes);
}

StepErrors errors_of(const std::vector<double>& errors) {
  StepErrors result;
  result.rows = errors.size();
  if (errors.empty()) return result;
  Aggregate median;
  median.statistic = Aggregate::Statistic::median_absolute_error;
  result.median_absolute = median.of(errors).value_or(0);
  for (const double error : errors) {
    result.mean_absolute += std::abs(error) / static_cast<double>(errors.size());
    result.bias += error / static_cast<double>(errors.size());
    if (std::abs(error) > std::abs(result.largest)) result.largest = error;
  }
  return result;
}

bool ComparedDemand::holds() const {
  const StepErrors& errors = summary.prediction;
  return errors.rows > 0 && errors.mean_absolute <= demand.mean_absolute_error &&
         std::abs(errors.bias) <= demand.bias && errors.mean_absolute < summary.baseline.mean_absolute;
}

bool ComparedDemand::reaches_aim() const {
  const StepErrors& errors = summary.prediction;
  return errors.mean_absolute <= demand.aim_mean_absolute_error.value_or(INFINITY) &&
         std::abs(errors.bias) <= demand.aim_bias.value_or(INFINITY);
}

bool StepComparison::holds() const { return std::ranges::all_of(demands, &ComparedDemand::holds); }

StepComparison compare_steps(const StepCase& definition, const std::vector<PublishedStep>& steps,
                             const InputsOf& inputs_of, sim::Fidelity fidelity) {
  StepComparison comparison{definition, {}, {}, {}};
  sim::PredictorPool predictors;
  for (const PublishedStep& step : steps)
    comparison.steps.push_back(compare(step, definition, inputs_of, fidelity, predictors));
  comparison.summaries = summaries_of(comparison.steps);
  for (const StepDemand& demand : definition.demands) {
    const auto wanted = [&](const PublishedStep& row) {
      return demand.hardware.empty() || std::ranges::find(demand.hardware, row.hardware) != demand.hardware.end();
    };
    comparison.demands.push_back({demand, summarise(demand.name, comparison.steps, wanted)});
  }
  return comparison;
}

}  // namespace plumbline::calibrate
