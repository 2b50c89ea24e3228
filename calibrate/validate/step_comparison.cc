#include "calibrate/validate/step_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "calibrate/validate/figure_value.h"
#include "calibrate/validate/validation_case.h"
#include "model/result/compared_time.h"
#include "sim/predict/predictor_pool.h"

namespace plumbline::calibrate {
namespace {

// Takes the constants that rest on steps of the set out of the profile, and returns their names.
std::vector<std::string> hold_out(const std::string& set, model::Profile& profile) {
  std::vector<std::string> names;
  std::vector<model::Parameter> parameters;
  for (const model::Parameter& constant : profile.parameters()) {
    const bool rests = std::ranges::find(constant.rows, set) != constant.rows.end();
    if (rests) names.push_back(constant.name);
    if (!rests) parameters.push_back(constant);
  }
  if (!names.empty())
    profile = {profile.name(), profile.description(), std::move(parameters), profile.devices(), profile.stack()};
  return names;
}

// An empty list has everything.
bool among(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

// Returns the most bytes of a rank in the words of StepReading::memory.
double bytes_of(const model::Memory& memory, std::string_view kind) {
  if (kind == "device") return memory.peak_bytes;
  double fullest = 0;
  for (const model::RankMemory& rank : memory.ranks)
    fullest = std::max(fullest, kind == "reserved" ? rank.segments_bytes : rank.allocated_bytes);
  return fullest;
}

ComparedStep compare(const PublishedStep& step, const StepCase& definition, const InputsOf& inputs_of,
                     sim::PredictorPool& predictors) {
  ComparedStep compared;
  compared.step = step;
  compared.lacking = step.lacking();
  if (!compared.lacking.empty()) return compared;
  const auto plan = step_plan(step, definition);
  if (!plan) return compared.error = plan.error(), compared;
  compared.missing = plan->missing;
  compared.profile = plan->profile;
  auto inputs = inputs_of(plan->plan, plan->profile);
  if (!inputs) return compared.error = inputs.error(), compared;
  compared.held_out = hold_out(step.set, inputs->profile);
  const auto simulation = predictors.with(*inputs, [&](sim::Predictor& predictor) {
    return predictor.simulate(inputs->plan, {.fidelity = definition.fidelity});
  });
  if (!simulation) return compared.error = simulation.error(), compared;
  compared.predicted = simulation->result.step.time_s;
  compared.peak_bytes = simulation->result.memory.peak_bytes;
  compared.comparable_bytes = bytes_of(simulation->result.memory, plan->memory);
  compared.capacity_bytes = simulation->result.memory.capacity_bytes;
  if (definition.residuals && step.seconds) {
    auto shares = step_shares(*inputs, predictors);
    if (!shares) return compared.error = shares.error(), compared;
    compared.shares = *shares;
  }
  const Naive naive = naive_prediction(inputs->plan, inputs->architecture, inputs->cluster, definition.naive_mfu);
  compared.baseline = naive.step.step.time_s;
  return compared;
}

// Summarizes the predicted rows that `which` accepts.
template <class Which>
StepSummary summarize(std::string name, const std::vector<ComparedStep>& steps, const Which& which) {
  StepSummary summary;
  summary.name = std::move(name);
  std::vector<double> predictions, baselines, memory;
  for (const ComparedStep& step : steps) {
    if (!which(step.step)) continue;
    if (const auto error = step.prediction_error()) {
      predictions.push_back(*error);
      baselines.push_back(step.baseline_error().value_or(0));
    }
    if (const auto error = step.memory_error()) memory.push_back(*error);
    const auto right = step.right_about_fit();
    summary.stated_fits += right.has_value();
    summary.right_fits += right.value_or(false);
  }
  summary.prediction = errors_of(predictions);
  summary.baseline = errors_of(baselines);
  summary.memory = errors_of(memory);
  return summary;
}

std::vector<StepSummary> summaries_of(const std::vector<ComparedStep>& steps) {
  std::vector<StepSummary> summaries;
  for (const ComparedStep& step : steps) {
    const std::string& set = step.step.set;
    if (std::ranges::find(summaries, set, &StepSummary::name) != summaries.end()) continue;
    StepSummary summary = summarize(set, steps, [&](const PublishedStep& row) { return row.set == set; });
    if (summary.prediction.rows > 0) summaries.push_back(std::move(summary));
  }
  summaries.push_back(summarize("all", steps, [](const PublishedStep&) { return true; }));
  return summaries;
}

// Returns "column value" of the columns that the row states.
std::string stated(const PublishedStep& step, std::initializer_list<const char*> columns) {
  std::string out;
  for (const char* column : columns)
    if (const auto found = step.numbers.find(column); found != step.numbers.end())
      out += fmt::format("{} {} ", column, found->second);
  return out;
}

std::string run_of(const PublishedStep& step) {
  return fmt::format("{} {} {}", step.hardware, step.gemm,
                     stated(step, {"layers", "hidden", "heads", "ffn", "experts", "expert_ffn", "vocabulary", "gpus",
                                   "global_batch", "sequence"}));
}

std::string degrees_of(const PublishedStep& step) {
  return stated(step,
                {"tensor", "context", "pipeline", "expert", "expert_tensor", "data", "zero_stage", "micro_batch"});
}

// Returns the predicted rows as plans of their runs.
std::vector<OrderedRow> ordered_rows(const std::vector<ComparedStep>& steps) {
  std::vector<OrderedRow> rows;
  std::map<std::string, std::set<std::string>> degrees;
  for (const ComparedStep& compared : steps)
    if (compared.prediction_error())
      degrees[compared.step.set + run_of(compared.step)].insert(degrees_of(compared.step) + compared.step.recompute);
  for (const ComparedStep& compared : steps) {
    if (!compared.prediction_error()) continue;
    const PublishedStep& step = compared.step;
    const std::string run = run_of(step);
    const std::string plan =
        fmt::format("{}{} {} {} {} {}", degrees_of(step), stated(step, {"virtual_stages"}), step.sequence_parallel,
                    step.schedule, step.recompute, fmt::join(step.plan, " "));
    rows.push_back({step.set, run, plan, degrees[step.set + run].size() == 1, *step.seconds, *compared.predicted});
  }
  return rows;
}

std::vector<ResidualRow> residual_rows(const std::vector<ComparedStep>& steps) {
  std::vector<ResidualRow> rows;
  for (const ComparedStep& compared : steps)
    if (compared.prediction_error() && compared.shares)
      rows.push_back({compared.step.set, *compared.step.seconds, *compared.predicted, *compared.shares});
  return rows;
}

}  // namespace

std::optional<double> ComparedStep::prediction_error() const { return model::relative_error(predicted, step.seconds); }

std::optional<double> ComparedStep::memory_error() const {
  return model::relative_error(comparable_bytes, step.memory_bytes);
}

std::optional<bool> ComparedStep::right_about_fit() const {
  if (!peak_bytes || (!step.seconds && !step.out_of_memory())) return std::nullopt;
  return (*peak_bytes <= capacity_bytes) != step.out_of_memory();
}

std::optional<double> ComparedStep::baseline_error() const {
  return predicted ? model::relative_error(baseline, step.seconds) : std::nullopt;
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
                             const InputsOf& inputs_of) {
  StepComparison comparison;
  comparison.definition = definition;
  sim::PredictorPool predictors;
  for (const PublishedStep& step : steps) comparison.steps.push_back(compare(step, definition, inputs_of, predictors));
  comparison.summaries = summaries_of(comparison.steps);
  for (const StepDemand& demand : definition.demands) {
    const auto wanted = [&](const PublishedStep& row) {
      return among(demand.hardware, row.hardware) && among(demand.sets, row.set);
    };
    comparison.demands.push_back({demand, summarize(demand.name, comparison.steps, wanted)});
  }
  const std::vector<OrderedRow> ordered = ordered_rows(comparison.steps);
  comparison.orders = plan_orders(ordered);
  comparison.scatter = cluster_scatter(ordered);
  if (definition.residuals) comparison.residuals = residual_regressions(residual_rows(comparison.steps));
  return comparison;
}

}  // namespace plumbline::calibrate
