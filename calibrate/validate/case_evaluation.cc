#include "calibrate/validate/case_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "calibrate/validate/component_case.h"
#include "calibrate/validate/interval_score.h"
#include "model/architecture/metrics.h"
#include "model/base/statistics.h"
#include "model/base/table_reader.h"
#include "model/base/text.h"
#include "model/economics/economics.h"
#include "model/memory/memory.h"
#include "sim/step/chunk.h"

namespace plumbline::calibrate {
namespace {

using model::OpType;
using model::RunCost;
using model::StepResult;
using model::TimelineSummary;
using Value = std::optional<double>;

struct Metric {
  std::string key;
  std::function<Value(const StepResult&)> read;
  bool from_step_time = false;
};

using Step = model::StepTimes;

auto of_run(auto field) {
  return [field](const StepResult& result) { return result.run ? Value((*result.run).*field) : std::nullopt; };
}

auto of_step(auto field) {
  return [field](const StepResult& result) -> Value { return result.step.*field; };
}

auto of_interval(double model::Quantiles::*quantile) {
  return [quantile](const StepResult& r) { return r.interval ? Value(r.interval->time_s.*quantile) : std::nullopt; };
}

std::vector<Metric> all_metrics() {
  std::vector<Metric> all = {
      {"step.time_s", of_step(&Step::time_s), true},
      {"step.tokens_per_s", of_step(&Step::tokens_per_s), true},
      {"step.tokens_per_s_per_gpu", of_step(&Step::tokens_per_s_per_gpu), true},
      {"step.model_tflops_per_gpu", of_step(&Step::model_tflops_per_gpu)},
      {"step.model_tflops_per_gpu_causal", of_step(&Step::model_tflops_per_gpu_causal)},
      {"step.mfu", of_step(&Step::mfu)},
      {"step.mfu_causal", of_step(&Step::mfu_causal)},
      {"step.bubble_s", of_step(&Step::bubble_s)},
      {"step.exposed_communication_s", of_step(&Step::exposed_communication_s)},
      {"step.optimizer_s", of_step(&Step::optimizer_s)},
      {"interval.time_s.p10", of_interval(&model::Quantiles::p10)},
      {"interval.time_s.p50", of_interval(&model::Quantiles::p50)},
      {"interval.time_s.p90", of_interval(&model::Quantiles::p90)},
      {"bound.time_s", [](const StepResult& result) { return result.bound_s; }},
      {"run.tokens", of_run(&RunCost::tokens)},
      {"run.steps", of_run(&RunCost::steps)},
      {"run.days", of_run(&RunCost::days), true},
      {"run.gpu_hours", of_run(&RunCost::gpu_hours), true},
      {"run.cost_usd", of_run(&RunCost::cost_usd), true},
      {"run.goodput", of_run(&RunCost::goodput)},
      {"run.total_gpu_hours", of_run(&RunCost::total_gpu_hours), true},
      {"run.total_cost_usd", of_run(&RunCost::total_cost_usd), true},
      {"memory.peak_bytes", [](const StepResult& result) -> Value { return result.memory.peak_bytes; }},
      {"memory.capacity_bytes", [](const StepResult& result) -> Value { return result.memory.capacity_bytes; }},
  };
  for (const auto& [name, values] : {std::pair("slots_s", &Step::slots_s),
                                     {"slots_mean_s", &Step::slots_mean_s},
                                     {"exposed_mean_s", &Step::exposed_mean_s},
                                     {"chunk_s", &Step::chunk_s}})
    for (std::size_t op = 0; op < model::PerOp().size(); ++op)
      all.push_back({fmt::format("step.{}.{}", name, model::to_string(static_cast<OpType>(op))),
                     [values = values, op](const StepResult& result) { return (result.step.*values)[op]; }});
  return all;
}

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = all_metrics();
  return all;
}

const Metric* find_metric(std::string_view key) {
  const auto found = std::ranges::find(metrics(), key, &Metric::key);
  return found == metrics().end() ? nullptr : &*found;
}

// Returns the keys of a sum, without the blanks around them.
std::vector<std::string_view> terms(std::string_view sum) {
  std::vector<std::string_view> keys = model::split_at(sum, '+');
  for (std::string_view& key : keys) key = model::trimmed(key);
  return keys;
}

constexpr std::string_view chunk_prefix = "chunk.";

struct Quantity {
  std::string_view name;  // "time_s"; names that end in a dot take an argument
  Value (*read)(const TimelineSummary& chunk, std::string_view argument);
};

Value compute_share(const TimelineSummary& chunk, std::string_view) {
  return chunk.seconds > 0 ? Value(chunk.compute_share()) : std::nullopt;
}

Value span(const TimelineSummary& chunk, std::string_view argument) {
  const std::size_t dot = argument.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::optional<int> slot = model::parse_number<int>(argument.substr(dot + 1));
  const auto wanted = [&](const TimelineSummary::Phase& s) {
    return s.name == argument.substr(0, dot) && s.slot == slot;
  };
  const auto found = std::ranges::find_if(chunk.phases, wanted);
  return found == chunk.phases.end() ? std::nullopt : Value(found->end - found->start);
}

// The first period is that of slot 1.
Value period(const TimelineSummary& chunk, std::string_view argument) {
  const std::optional<int> slot = model::parse_number<int>(argument);
  if (!slot || *slot < 1 || static_cast<std::size_t>(*slot) > chunk.periods.size()) return std::nullopt;
  return chunk.periods[static_cast<std::size_t>(*slot) - 1];
}

Value class_time(const TimelineSummary& chunk, std::string_view argument) {
  const auto found = std::ranges::find(chunk.classes, argument, &TimelineSummary::ClassTime::row);
  return found == chunk.classes.end() ? std::nullopt : Value(found->seconds);
}

Value gemm(const TimelineSummary& chunk, std::string_view argument) {
  const auto wanted = [&](const TimelineSummary::Gemm& p) { return p.name + "." + p.kind == argument; };
  const auto found = std::ranges::find_if(chunk.gemms, wanted);
  return found == chunk.gemms.end() ? std::nullopt : Value(found->mean());
}

Value gemm_sum(const TimelineSummary& chunk, std::string_view argument) {
  Value sum;
  for (const std::string_view kind : model::split_at(argument, '+'))
    for (const TimelineSummary::Gemm& p : chunk.gemms)
      if (p.kind == kind) sum = sum.value_or(0) + p.mean();
  return sum;
}

template <double TimelineSummary::*field>
Value total_of(const TimelineSummary& chunk, std::string_view) {
  return chunk.*field;
}

constexpr Quantity quantities[] = {
    {"time_s", total_of<&TimelineSummary::seconds>},
    {"compute_busy_s", total_of<&TimelineSummary::compute_busy>},
    {"compute_busy_share", compute_share},
    {"communication_busy_s", total_of<&TimelineSummary::communication_busy>},
    {"exposed_communication_s", total_of<&TimelineSummary::exposed_communication>},
    {"span_s.", span},
    {"period_s.", period},
    {"class_s.", class_time},
    {"gemm_s.", gemm},
    {"gemm_sum_s.", gemm_sum},
};

// A metric split into its quantity and the argument after the name.
struct Split {
  const Quantity* quantity = nullptr;
  std::string_view argument;
};

Split split_argument(std::string_view metric) {
  if (!of_chunk(metric)) return {};
  metric.remove_prefix(chunk_prefix.size());
  for (const Quantity& quantity : quantities) {
    const bool takes_argument = quantity.name.ends_with('.');
    if (takes_argument ? metric.starts_with(quantity.name) && metric.size() > quantity.name.size()
                       : metric == quantity.name)
      return {&quantity, metric.substr(quantity.name.size())};
  }
  return {};
}

model::Result<void> unknown(std::string_view metric, std::string_view name, const std::vector<std::string>& known,
                            std::string_view otherwise) {
  return model::wrong_input("metric", fmt::format("unknown metric '{}'", metric),
                            model::did_you_mean(name, known, otherwise));
}

model::Result<void> check_chunk_metric(std::string_view metric) {
  if (split_argument(metric).quantity != nullptr) return {};
  std::vector<std::string> known;
  for (const Quantity& quantity : quantities) {
    std::string_view name = quantity.name;
    if (name.ends_with('.')) name.remove_suffix(1);
    known.push_back(fmt::format("{}{}", chunk_prefix, name));
  }
  const std::string_view name = metric.substr(0, metric.find('.', chunk_prefix.size()));
  return unknown(metric, name, known, fmt::format("known: {}", fmt::join(known, ", ")));
}

bool of_step(const Figure& figure) { return !figure.question && !figure.all_to_all && !of_chunk(figure.metric); }

std::optional<double> in_si(const Figure& figure, const Prediction& prediction) {
  if (figure.question)
    return prediction.kernels == nullptr ? std::nullopt : std::optional(prediction.kernels->answer(*figure.question));
  if (figure.all_to_all)
    return prediction.all_to_alls == nullptr ? std::nullopt
                                             : std::optional(prediction.all_to_alls->rate(*figure.all_to_all));
  if (of_chunk(figure.metric))
    return prediction.chunk == nullptr ? std::nullopt : metric_value(figure.metric, *prediction.chunk);
  return prediction.step == nullptr ? std::nullopt : metric_value(figure.metric, *prediction.step);
}

// Returns what a step time determines.
model::StepResult result_of(const model::Plan& plan, const model::ClusterShape& cluster, double step_s) {
  model::StepResult result;
  result.step.time_s = step_s;
  result.step.tokens_per_s = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length) / step_s;
  result.step.tokens_per_s_per_gpu = result.step.tokens_per_s / static_cast<double>(plan.cluster.gpus);
  result.run = model::run_cost(plan, step_s, cluster);
  return result;
}

std::optional<double> in_unit(const Figure& figure, std::optional<double> value) {
  return value ? std::optional(*value * figure.scale) : std::nullopt;
}

EvaluatedFigure evaluate(const Figure& figure, const std::vector<Prediction>& predictions, const Naive& naive) {
  EvaluatedFigure row;
  row.figure = figure;
  for (const Prediction& prediction : predictions) {
    row.predicted.push_back(predicted(figure, prediction));
    row.intervals.push_back(interval_of(figure, prediction));
  }
  row.naive = baseline(figure, naive);
  row.within = figure.within(row.predicted.back());
  return row;
}

EvaluatedAggregate evaluate(const Aggregate& aggregate, const std::vector<EvaluatedFigure>& figures,
                            std::size_t profiles) {
  EvaluatedAggregate row{aggregate, {}, false};
  for (std::size_t profile = 0; profile < profiles; ++profile) {
    std::vector<double> errors;
    for (const EvaluatedFigure& figure : figures) {
      const auto error = error_of(figure.figure, figure.predicted[profile]);
      if (figure.figure.group == aggregate.over && error) errors.push_back(*error);
    }
    row.values.push_back(aggregate.of(errors));
  }
  row.within = row.values.back() && *row.values.back() <= aggregate.tolerance;
  return row;
}

double loss(double share, double predicted, double measured) {
  const double above = measured - predicted;
  return (above >= 0 ? share * above : (share - 1) * above) / measured;
}

// Whether a step time alone, with the plan, determines the metric. Then a constant share of the peak predicts it too.
bool follows_from_step_time(std::string_view metric) {
  return std::ranges::all_of(terms(metric), [](std::string_view key) {
    const Metric* known = find_metric(key);
    return known != nullptr && known->from_step_time;
  });
}

}  // namespace

std::optional<double> metric_value(std::string_view metric, const StepResult& result) {
  double sum = 0;
  for (const std::string_view key : terms(metric)) {
    const Metric* known = find_metric(key);
    const Value value = known != nullptr ? known->read(result) : std::nullopt;
    if (!value) return std::nullopt;
    sum += *value;
  }
  return sum;
}

std::optional<double> metric_value(std::string_view metric, const TimelineSummary& chunk) {
  const auto [quantity, argument] = split_argument(metric);
  return quantity == nullptr ? std::nullopt : quantity->read(chunk, argument);
}

bool of_chunk(std::string_view metric) { return metric.starts_with(chunk_prefix); }

model::Result<void> check_metric(std::string_view metric) {
  return of_chunk(metric) ? check_chunk_metric(metric) : check_step_metric(metric);
}

model::Result<void> check_step_metric(std::string_view metric) {
  for (const std::string_view key : terms(metric)) {
    if (find_metric(key) != nullptr) continue;
    std::vector<std::string> known;
    for (const Metric& candidate : metrics()) known.emplace_back(candidate.key);
    return unknown(key, key, known, "a key of the JSON output, or a sum of such");
  }
  return {};
}

std::optional<bool> Figure::within(std::optional<double> predicted) const {
  if (!tolerance && !absolute_tolerance && !at_most) return std::nullopt;
  if (!predicted) return false;
  if (at_most) return *predicted >= 0 && *predicted <= *at_most;
  const double difference = std::abs(*predicted - value);
  return difference <= (absolute_tolerance ? *absolute_tolerance : *tolerance * value);
}

bool Figure::short_of_aim(std::optional<double> predicted) const {
  return aim && within(predicted).value_or(false) && std::abs(*predicted - value) > *aim * value;
}

std::string_view to_string(Aggregate::Statistic statistic) {
  return statistic == Aggregate::Statistic::rms_error ? "rms_error" : "median_absolute_error";
}

std::optional<double> Aggregate::of(const std::vector<double>& errors) const {
  if (errors.empty()) return std::nullopt;
  if (statistic == Statistic::median_absolute_error) return errors_of(errors).median_absolute;
  const double squares = std::inner_product(errors.begin(), errors.end(), errors.begin(), 0.0);
  return std::sqrt(squares / static_cast<double>(errors.size()));
}

Needs needs_of(const ValidationCase& definition) {
  Needs needs;
  for (const Figure& figure : definition.figures) {
    (figure.question           ? needs.kernels
     : figure.all_to_all       ? needs.all_to_alls
     : of_chunk(figure.metric) ? needs.chunk
                               : needs.step) = true;
  }
  return needs;
}

std::optional<double> predicted(const Figure& figure, const Prediction& prediction) {
  return in_unit(figure, in_si(figure, prediction));
}

std::optional<model::Quantiles> interval_of(const Figure& figure, const Prediction& prediction) {
  const std::optional<double> value = predicted(figure, prediction);
  if (!value || !of_step(figure) || prediction.draws == nullptr || !prediction.step->interval) return std::nullopt;
  const sim::Inputs& inputs = *prediction.inputs;
  if (!follows_from_step_time(figure.metric)) {
    if (figure.unit != "s") return std::nullopt;
    return sim::part_interval(*prediction.draws, inputs.left.value_or(sim::Left()), *value,
                              [&](const model::StepTimes& step) {
                                model::StepResult result;
                                result.step = step;
                                return metric_value(figure.metric, result);
                              });
  }
  const auto at = [&](double step_s) {
    const model::StepResult result = result_of(inputs.plan, inputs.cluster, step_s);
    return predicted(figure, {.step = &result}).value_or(0);
  };
  const model::Quantiles& time = prediction.step->interval->time_s;
  model::Quantiles quantiles{at(time.p10), at(time.p50), at(time.p90)};
  if (quantiles.p10 > quantiles.p90) std::swap(quantiles.p10, quantiles.p90);
  return quantiles;
}

Naive naive_prediction(const model::Plan& plan, const model::Architecture& architecture,
                       const model::ClusterShape& cluster, double mfu) {
  const model::ModelMetrics metrics = model::model_metrics(architecture, plan.batch.sequence_length);
  const auto tokens = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
  const auto gpus = static_cast<double>(plan.cluster.gpus);
  Naive naive;
  naive.flop_rate = cluster.device.bf16_peak.value() * mfu;
  naive.step = result_of(plan, cluster, tokens * metrics.flops_per_token / (gpus * naive.flop_rate));
  return naive;
}

std::optional<double> baseline(const Figure& figure, const Naive& naive) {
  if (figure.question) {
    const auto* gemm = std::get_if<GemmQuestion>(&*figure.question);
    return in_unit(figure, gemm == nullptr ? std::nullopt : std::optional(gemm->flops() / naive.flop_rate));
  }
  const bool of_pair = figure.metric == "chunk.time_s" || figure.metric == "step.chunk_s.FB";
  if (of_pair)
    return in_unit(figure, naive.pair_flops ? std::optional(*naive.pair_flops / naive.flop_rate) : std::nullopt);
  return follows_from_step_time(figure.metric) ? predicted(figure, {.step = &naive.step}) : std::nullopt;
}

std::optional<double> error_of(const Figure& figure, std::optional<double> value) {
  return value ? std::optional(*value / figure.value - 1) : std::nullopt;
}

bool EvaluatedCase::holds() const {
  return std::ranges::all_of(figures, [](const EvaluatedFigure& row) { return row.within.value_or(true); }) &&
         std::ranges::all_of(aggregates, &EvaluatedAggregate::within);
}

EvaluatedCase evaluate(const ValidationCase& definition, const std::vector<Prediction>& predictions,
                       const Naive& naive) {
  EvaluatedCase evaluated{definition, naive.step.step.time_s, {}, {}};
  for (const Figure& figure : definition.figures) evaluated.figures.push_back(evaluate(figure, predictions, naive));
  for (const Aggregate& aggregate : definition.aggregates)
    evaluated.aggregates.push_back(evaluate(aggregate, evaluated.figures, predictions.size()));
  return evaluated;
}

model::Result<const CaseRuns::Run*> CaseRuns::run_of(const std::string& plan, const std::string& profile,
                                                     const Needs& needs) {
  auto found = runs_.find({plan, profile});
  if (found == runs_.end()) {
    auto inputs = TRY(load_(plan, profile));
    found = runs_.try_emplace({plan, profile}, Run{std::move(inputs), {}, {}, {}, {}}).first;
  }
  Run& run = found->second;
  if (needs.step && !run.step) {
    auto simulation = TRY(predictors_.with(
        run.inputs, [&](sim::Predictor& predictor) { return predictor.simulate(run.inputs.plan, {}); }));
    run.step = std::move(simulation.result);
    auto [interval, draws] = TRY(sim::draw_interval(run.inputs, *run.step, {.parts = false}));
    run.step->interval = std::move(interval);
    run.draws = std::move(draws);
  }
  if (needs.kernels && !run.kernels)
    run.kernels = TRY(SingleKernels::make(run.inputs.profile, run.inputs.cluster.device));
  if (needs.all_to_alls && !run.all_to_alls)
    run.all_to_alls = TRY(SingleAllToAlls::make(run.inputs.profile, run.inputs.cluster));
  return &run;
}

model::Result<EvaluatedCase> CaseRuns::evaluate(const ValidationCase& definition) {
  const Needs needs = needs_of(definition);
  std::vector<std::optional<model::TimelineSummary>> chunks;
  chunks.reserve(definition.profiles.size());  // predictions point into it
  std::vector<Prediction> predictions;
  Naive naive;
  std::optional<double> pair_flops;
  for (const std::string& profile : definition.profiles) {
    const auto run = TRY(run_of(definition.plan, profile, needs));
    const sim::Inputs& inputs = run->inputs;
    auto& chunk = chunks.emplace_back();
    if (needs.chunk) {
      const auto simulated = TRY(sim::run_chunk(inputs, definition.chunk_rank.value_or(sim::ChunkRank{})));
      chunk = model::summarize(simulated.timeline);
      pair_flops = simulated.model_flops;
    }
    const auto found = [](const auto& result) { return result ? &*result : nullptr; };
    predictions.push_back(
        {found(run->step), found(chunk), found(run->kernels), found(run->all_to_alls), &inputs, &run->draws});
    naive = naive_prediction(inputs.plan, inputs.architecture, inputs.cluster, definition.naive_mfu);
  }
  naive.pair_flops = pair_flops;
  return calibrate::evaluate(definition, predictions, naive);
}

ErrorStatistics errors_of(const std::vector<double>& errors) {
  ErrorStatistics result;
  result.rows = errors.size();
  if (errors.empty()) return result;
  std::vector<double> sizes;
  for (const double error : errors) {
    sizes.push_back(std::abs(error));
    result.mean_absolute += std::abs(error) / static_cast<double>(errors.size());
    result.bias += error / static_cast<double>(errors.size());
    if (std::abs(error) > std::abs(result.largest)) result.largest = error;
  }
  result.median_absolute = model::quantile(std::move(sizes), 0.5);
  return result;
}

PredictedRange lognormal_range(double middle, double deviation, double measured) {
  const double factor = std::exp(model::normal_p90 * deviation);
  return {{middle / factor, middle, middle * factor}, measured};
}

IntervalScore score_of(const std::vector<PredictedRange>& ranges) {
  IntervalScore score;
  score.rows = ranges.size();
  if (ranges.empty()) return score;
  std::vector<double> half_widths, errors;
  for (const PredictedRange& range : ranges) {
    const auto& [p10, p50, p90] = range.quantiles;
    score.coverage += range.quantiles.contains(range.measured) ? 1 : 0;
    score.pinball +=
        (loss(0.1, p10, range.measured) + loss(0.5, p50, range.measured) + loss(0.9, p90, range.measured)) / 3;
    half_widths.push_back(range.quantiles.half_width());
    errors.push_back(p50 / range.measured - 1);
    const auto tenth = static_cast<std::size_t>(range.below() * static_cast<double>(score.tenths.size()));
    ++score.tenths[std::min(tenth, score.tenths.size() - 1)];
  }
  score.middle = errors_of(errors);
  score.half_width = errors_of(half_widths).median_absolute;
  score.coverage /= static_cast<double>(ranges.size());
  score.pinball /= static_cast<double>(ranges.size());
  return score;
}

RangeScores scores_of(const std::vector<RowRanges>& rows) {
  std::vector<PredictedRange> steps, memory, baselines;
  FitVerdicts fits;
  for (const RowRanges& row : rows) {
    if (row.step) steps.push_back(*row.step);
    if (row.memory) memory.push_back(*row.memory);
    if (row.baseline) baselines.push_back(*row.baseline);
    if (!row.fits_probability || !row.ran) continue;
    ++fits.rows;
    fits.brier += std::pow(*row.fits_probability - (*row.ran ? 1 : 0), 2);
    const bool fit = *row.fits_probability >= model::surely_fits, unfit = *row.fits_probability < model::hardly_fits;
    fits.fit += fit;
    fits.fit_wrong += fit && !*row.ran;
    fits.unfit += unfit;
    fits.unfit_wrong += unfit && *row.ran;
  }
  if (fits.rows > 0) fits.brier /= static_cast<double>(fits.rows);
  return {score_of(steps), score_of(memory), score_of(baselines), fits};
}

const ComponentGoal* ComponentComparison::goal(const std::string& family) const {
  const auto found = std::ranges::find(definition.goals, family, &ComponentGoal::family);
  return found == definition.goals.end() ? nullptr : &*found;
}

bool ComponentComparison::holds() const {
  return std::ranges::all_of(profiles, [&](const ComponentErrors& errors) {
    return std::ranges::all_of(errors.summaries, [&](const HeldOutSummary& summary) {
      const ComponentGoal* wanted = goal(summary.family);
      return !summary.table.empty() || wanted == nullptr || summary.median <= wanted->limit;
    });
  });
}

bool is_component_case(const std::string& path) { return model::table_file_has(path, "recipes"); }

model::Result<ComponentCase> load_component_case(const std::string& path) {
  ComponentCase definition;
  TRY(model::read_table_file(path, [&](model::TableReader& file) {
    definition.name = file.text("name");
    definition.profiles = file.texts("recipes");
    file.require("goal");
    file.optional_tables("goal", [&](model::TableReader& table) {
      ComponentGoal goal;
      READ_REQUIRED(table, goal, family, median, limit);
      goal.p90 = table.optional_positive("p90");
      definition.goals.push_back(std::move(goal));
    });
  }));
  return definition;
}

model::Result<ComponentComparison> compare_components(const ComponentCase& definition, ProfileMaker& maker) {
  ComponentComparison comparison{definition, {}};
  for (const std::string& name : definition.profiles) {
    const MadeProfile& made = *TRY(maker.make(name));
    comparison.profiles.push_back({name, summaries(made.held_out)});
  }
  return comparison;
}

}  // namespace plumbline::calibrate
