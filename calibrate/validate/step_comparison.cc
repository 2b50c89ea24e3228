#include "calibrate/validate/step_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include "calibrate/validate/case_evaluation.h"
#include "model/base/distinct.h"
#include "model/result/prediction_error.h"
#include "model/result/result.h"
#include "sim/interval/interval.h"
#include "sim/predict/inputs.h"
#include "sim/predict/predictor_pool.h"

namespace plumbline::calibrate {
namespace {

// Quantiles need no more, since ln(step) is nearly linear in what is drawn.
constexpr std::size_t draws_of_row = 32;

// Returns the ranges of a row but the baseline's, from the interval of its predicted result; `peak` is what the row's
// memory is of. Errors: those of sim::draw_interval().
model::Result<RowRanges> row_ranges(const sim::Inputs& inputs, const model::StepResult& result,
                                    const PublishedStep& step, sim::PeakOf peak) {
  const auto [interval, draws] =
      TRY(sim::draw_interval(inputs, result, {.draws = draws_of_row, .threads = 1, .peak = peak, .parts = false}));
  RowRanges ranges;
  if (step.seconds) ranges.step = {interval.time_s, *step.seconds};
  // A full device shows its capacity, whatever more an allocator would hold.
  const double room = peak == sim::PeakOf::device ? result.memory.capacity_bytes : INFINITY;
  if (step.memory_bytes) ranges.memory = {interval.peak_bytes.at_most(room), *step.memory_bytes};
  ranges.fits_probability = interval.fits_probability;
  ranges.ran = step.ran();
  ranges.drawn = sim::drawn_spread(draws.time_ratio);
  return ranges;
}

// Returns the names of the constants that rest on steps of the set.
std::vector<std::string> resting_on(const std::string& set, const model::Profile& profile) {
  std::vector<std::string> names;
  for (const model::Parameter& constant : profile.parameters())
    if (std::ranges::find(constant.rows, set) != constant.rows.end()) names.push_back(constant.name);
  return names;
}

// An empty list has everything.
bool among(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

bool matches(const StepDemand& demand, const PublishedStep& step) {
  return among(demand.hardware, step.hardware) && among(demand.sets, step.set);
}

// Reads StepReading::memory.
sim::PeakOf peak_of(std::string_view kind) {
  if (kind == "device") return sim::PeakOf::device;
  return kind == "reserved" ? sim::PeakOf::reserved : sim::PeakOf::allocated;
}

// Loads the inputs of rows, one row at a time.
struct RowInputs {
  const InputsOf& of_plan;
  std::mutex mutex = {};

  model::Result<sim::Inputs> of(const StepPlan& plan, const std::string& held_out) {
    const std::scoped_lock lock(mutex);
    return of_plan(plan.plan, plan.profile, held_out);
  }
};

ComparedStep compare(const PublishedStep& step, const StepCase& definition, bool ranges, RowInputs& row_inputs,
                     sim::PredictorPool& predictors) {
  ComparedStep compared;
  compared.step = step;
  compared.lacking = step.lacking();
  if (!compared.lacking.empty()) return compared;
  const auto plan = step_plan(step, definition);
  if (!plan) return compared.error = plan.error(), compared;
  compared.missing = plan->missing;
  compared.missing_tensors = plan->missing_tensors;
  compared.profile = plan->profile;
  const auto full = row_inputs.of(*plan, "");
  if (!full) return compared.error = full.error(), compared;
  compared.held_out = resting_on(step.set, full->profile);
  const auto inputs = row_inputs.of(*plan, step.set);
  if (!inputs) return compared.error = inputs.error(), compared;
  compared.kind = step_kind(*inputs);
  const auto simulation = predictors.with(*inputs, [&](sim::Predictor& predictor) {
    return predictor.simulate(inputs->plan, {.fidelity = definition.fidelity});
  });
  if (!simulation) return compared.error = simulation.error(), compared;
  compared.predicted = simulation->result.step.time_s;
  compared.peak_bytes = simulation->result.memory.peak_bytes;
  compared.comparable_bytes = sim::fullest_bytes(simulation->result.memory, peak_of(plan->memory));
  compared.capacity_bytes = simulation->result.memory.capacity_bytes;
  if (definition.residuals && step.seconds) {
    auto shares = step_shares(*inputs, predictors);
    if (!shares) return compared.error = shares.error(), compared;
    compared.shares = *shares;
  }
  const Naive naive = naive_prediction(inputs->plan, inputs->architecture, inputs->cluster, definition.naive_mfu);
  compared.baseline = naive.step.step.time_s;
  if (!ranges || !definition.intervals) return compared;
  auto likely = row_ranges(*inputs, simulation->result, step, peak_of(plan->memory));
  if (!likely) return compared.error = likely.error(), compared;
  compared.ranges = *likely;
  return compared;
}

// Returns the compared rows in their order.
std::vector<ComparedStep> compare_all(const StepCase& definition, const std::vector<PublishedStep>& steps,
                                      const InputsOf& inputs_of, bool ranges, const sim::Watch& watch) {
  std::vector<ComparedStep> compared(steps.size());
  RowInputs inputs{inputs_of};
  sim::PredictorPool predictors;
  sim::for_each_index(steps.size(), watch,
                      [&](std::size_t i) { compared[i] = compare(steps[i], definition, ranges, inputs, predictors); });
  return compared;
}

// Adds the range of each row's baseline by the location and spread of ln(measured / baseline) on the other sets, each
// of which counts the same; nothing to rows of a single set.
void add_baselines(std::vector<ComparedStep>& steps) {
  std::map<std::string, std::vector<double>> logarithms;  // by set
  for (const ComparedStep& row : steps)
    if (row.ranges.step) logarithms[row.step.set].push_back(std::log(*row.step.seconds / *row.baseline));
  if (logarithms.size() < 2) return;
  for (ComparedStep& row : steps) {
    if (!row.ranges.step) continue;
    double mean = 0, square = 0;
    for (const auto& [set, values] : logarithms) {
      if (set == row.step.set) continue;
      const auto all = static_cast<double>(values.size() * (logarithms.size() - 1));
      for (const double value : values) mean += value / all, square += value * value / all;
    }
    const double deviation = std::sqrt(std::max(square - mean * mean, 1e-12));
    row.ranges.baseline = lognormal_range(*row.baseline * std::exp(mean), deviation, *row.step.seconds);
  }
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

const std::string& set_of(const ComparedStep& row) { return row.step.set; }

std::vector<StepSummary> summaries_of(const std::vector<ComparedStep>& steps) {
  std::vector<StepSummary> summaries;
  for (const std::string& set : model::distinct(steps, set_of)) {
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
  const auto ran = step.ran();
  if (!peak_bytes || !ran) return std::nullopt;
  return (*peak_bytes <= capacity_bytes) == *ran;
}

std::optional<double> ComparedStep::baseline_error() const {
  return predicted ? model::relative_error(baseline, step.seconds) : std::nullopt;
}

bool ComparedDemand::holds() const {
  const ErrorStatistics& errors = summary.prediction;
  return errors.rows > 0 && errors.mean_absolute <= demand.mean_absolute_error &&
         std::abs(errors.bias) <= demand.bias && errors.mean_absolute < summary.baseline.mean_absolute;
}

bool ComparedDemand::reaches_aim() const {
  const ErrorStatistics& errors = summary.prediction;
  return errors.mean_absolute <= demand.aim_mean_absolute_error.value_or(INFINITY) &&
         std::abs(errors.bias) <= demand.aim_bias.value_or(INFINITY);
}

bool StepComparison::holds() const { return std::ranges::all_of(demands, &ComparedDemand::holds); }

bool IntervalScores::holds() const {
  return !demand || scores.empty() || demand->holds(scores.back().second.step.coverage);
}

IntervalScores interval_scores(const std::vector<StepComparison>& comparisons) {
  IntervalScores result;
  std::vector<ComparedStep> steps;
  std::vector<StepDemand> demands;  // on some hardware
  for (const StepComparison& comparison : comparisons) {
    if (!result.demand) result.demand = comparison.definition.interval;
    std::ranges::copy_if(comparison.steps, std::back_inserter(steps),
                         [](const ComparedStep& step) { return step.ranges.fits_probability.has_value(); });
    std::ranges::copy_if(comparison.definition.demands, std::back_inserter(demands),
                         [](const StepDemand& demand) { return !demand.hardware.empty(); });
  }
  if (steps.empty()) return result;
  add_baselines(steps);
  const auto add = [&](const std::string& name, const auto& which) {
    std::vector<RowRanges> ranges;
    for (const ComparedStep& step : steps)
      if (which(step.step)) ranges.push_back(step.ranges);
    result.scores.emplace_back(name, scores_of(ranges));
  };
  for (const std::string& set : model::distinct(steps, set_of))
    add(set, [&](const PublishedStep& step) { return step.set == set; });
  for (const StepDemand& demand : demands)
    add(demand.name, [&](const PublishedStep& step) { return matches(demand, step); });
  add("all", [](const PublishedStep&) { return true; });
  return result;
}

StepComparison compare_steps(const StepCase& definition, const std::vector<PublishedStep>& steps,
                             const InputsOf& inputs_of, bool ranges, const sim::Watch& watch) {
  StepComparison comparison;
  comparison.definition = definition;
  comparison.steps = compare_all(definition, steps, inputs_of, ranges, watch);
  comparison.summaries = summaries_of(comparison.steps);
  for (const StepDemand& demand : definition.demands) {
    const auto wanted = [&](const PublishedStep& row) { return matches(demand, row); };
    comparison.demands.push_back({demand, summarize(demand.name, comparison.steps, wanted)});
  }
  const std::vector<OrderedRow> ordered = ordered_rows(comparison.steps);
  comparison.orders = plan_orders(ordered);
  comparison.scatter = cluster_scatter(ordered);
  if (definition.residuals) comparison.residuals = residual_regressions(residual_rows(comparison.steps));
  return comparison;
}

}  // namespace plumbline::calibrate
