#include "calibrate/validate/case_evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <variant>

#include "calibrate/validate/interval_score.h"
#include "calibrate/validate/metric.h"
#include "model/architecture/metrics.h"
#include "model/economics/economics.h"
#include "sim/step/chunk.h"

namespace plumbline::calibrate {
namespace {

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

}  // namespace

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

}  // namespace plumbline::calibrate
