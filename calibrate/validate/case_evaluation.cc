#include "calibrate/validate/case_evaluation.h"

#include <algorithm>

#include "model/result/timeline_summary.h"
#include "sim/step/chunk.h"

namespace plumbline::calibrate {
namespace {

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
    row.values.push_back(aggregate.of(std::move(errors)));
  }
  row.within = row.values.back() && *row.values.back() <= aggregate.tolerance;
  return row;
}

}  // namespace

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
    auto simulation = predictors_.with(
        run.inputs, [&](sim::Predictor& predictor) { return predictor.simulate(run.inputs.plan, {}); });
    if (!simulation) return tl::unexpected(simulation.error());
    run.step = std::move(simulation->result);
    auto [interval, draws] = TRY(sim::draw_interval(run.inputs, *run.step));
    run.step->interval = std::move(interval);
    run.draws = std::move(draws);
  }
  if (needs.kernels && !run.kernels) {
    const auto kernels = TRY(SingleKernels::make(run.inputs.profile, run.inputs.cluster.device));
    run.kernels = kernels;
  }
  if (needs.all_to_alls && !run.all_to_alls) {
    const auto all_to_alls = TRY(SingleAllToAlls::make(run.inputs.profile, run.inputs.cluster));
    run.all_to_alls = all_to_alls;
  }
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
    const sim::Inputs& inputs = (run)->inputs;
    auto& chunk = chunks.emplace_back();
    if (needs.chunk) {
      const auto simulated = TRY(sim::run_chunk(inputs, definition.chunk_rank.value_or(sim::ChunkRank{})));
      chunk = model::summarize(simulated.timeline);
      pair_flops = simulated.model_flops;
    }
    predictions.push_back({(run)->step ? &*(run)->step : nullptr, chunk ? &*chunk : nullptr,
                           (run)->kernels ? &*(run)->kernels : nullptr,
                           (run)->all_to_alls ? &*(run)->all_to_alls : nullptr, &inputs, &(run)->draws});
    naive = naive_prediction(inputs.plan, inputs.architecture, inputs.cluster, definition.naive_mfu);
  }
  naive.pair_flops = pair_flops;
  return calibrate::evaluate(definition, predictions, naive);
}

}  // namespace plumbline::calibrate
