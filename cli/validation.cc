#include "cli/validation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/base/version.h"

namespace plumbline::cli {
namespace {

using calibrate::Aggregate;
using calibrate::Figure;
using calibrate::ValidationCase;
using Json = nlohmann::ordered_json;

EvaluatedFigure evaluate(const Figure& figure, const std::vector<calibrate::Prediction>& predictions,
                         const calibrate::Naive& naive) {
  EvaluatedFigure row;
  row.figure = figure;
  for (const calibrate::Prediction& prediction : predictions)
    row.predicted.push_back(calibrate::predicted(figure, prediction));
  row.naive = calibrate::baseline(figure, naive);
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

Json value_of(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json by_profile(const std::vector<std::string>& profiles, const std::vector<std::optional<double>>& values) {
  Json json = Json::object();
  for (std::size_t i = 0; i < profiles.size(); ++i) json[profiles[i]] = value_of(values[i]);
  return json;
}

Json figure_json(const EvaluatedFigure& row, const std::vector<std::string>& profiles) {
  std::vector<std::optional<double>> errors;
  for (const std::optional<double>& value : row.predicted) errors.push_back(error_of(row.figure, value));
  return {{"name", row.figure.name},
          {"metric", row.figure.metric},
          {"group", row.figure.group.empty() ? Json(nullptr) : Json(row.figure.group)},
          {"unit", row.figure.unit},
          {"published", row.figure.value},
          {"predicted", by_profile(profiles, row.predicted)},
          {"error", by_profile(profiles, errors)},
          {"naive", value_of(row.naive)},
          {"naive_error", value_of(error_of(row.figure, row.naive))},
          {"tolerance", value_of(row.figure.tolerance)},
          {"absolute_tolerance", value_of(row.figure.absolute_tolerance)},
          {"at_most", value_of(row.figure.at_most)},
          {"aim", value_of(row.figure.aim)},
          {"within_tolerance", row.within ? Json(*row.within) : Json(nullptr)},
          {"source", row.figure.source}};
}

Json aggregate_json(const EvaluatedAggregate& row, const std::vector<std::string>& profiles) {
  return {{"name", row.aggregate.name},
          {"over", row.aggregate.over},
          {"statistic", calibrate::to_string(row.aggregate.statistic)},
          {"value", by_profile(profiles, row.values)},
          {"tolerance", row.aggregate.tolerance},
          {"within_tolerance", row.within}};
}

Json case_json(const EvaluatedCase& evaluated) {
  const ValidationCase& definition = evaluated.definition;
  Json figures = Json::array();
  for (const EvaluatedFigure& row : evaluated.figures) figures.push_back(figure_json(row, definition.profiles));
  Json aggregates = Json::array();
  for (const EvaluatedAggregate& row : evaluated.aggregates)
    aggregates.push_back(aggregate_json(row, definition.profiles));
  return {
      {"name", definition.name},
      {"plan", definition.plan},
      {"profiles", definition.profiles},
      {"naive",
       {{"mfu", definition.naive_mfu}, {"step_time_s", evaluated.naive_step_s}, {"source", definition.naive_source}}},
      {"passed", evaluated.holds()},
      {"figures", std::move(figures)},
      {"aggregates", std::move(aggregates)}};
}

Json step_json(const calibrate::ComparedStep& row) {
  const calibrate::PublishedStep& step = row.step;
  Json memory = nullptr;
  if (step.memory_bytes || row.peak_bytes) {
    const bool both = step.memory_bytes && row.peak_bytes;
    memory = {{"measured_bytes", value_of(step.memory_bytes)},
              {"predicted_peak_bytes", value_of(row.peak_bytes)},
              {"error_bytes", both ? Json(*row.peak_bytes - *step.memory_bytes) : Json(nullptr)},
              {"fits", row.peak_bytes ? Json(*row.peak_bytes <= row.capacity_bytes) : Json(nullptr)}};
  }
  return {{"id", step.id},
          {"set", step.set},
          {"variant", step.variant},
          {"model", step.model},
          {"hardware", step.hardware},
          {"layout", step.layout()},
          {"profile", row.profile.empty() ? Json(nullptr) : Json(row.profile)},
          {"measured_s", value_of(step.seconds)},
          {"measured_from", step.time.empty() ? Json(nullptr) : Json(step.time)},
          {"predicted_s", value_of(row.predicted)},
          {"error", value_of(row.prediction_error())},
          {"baseline_s", value_of(row.baseline)},
          {"baseline_error", value_of(row.baseline_error())},
          {"memory", std::move(memory)},
          {"lacks", Json(row.lacking)},
          {"assumed", Json(step.assumed)},
          {"not_modelled", Json(row.missing)},
          {"not_simulated", row.error ? Json(row.error->message) : Json(nullptr)},
          {"source", step.source}};
}

Json errors_json(const calibrate::StepErrors& errors) {
  return {{"median_absolute", errors.median_absolute},
          {"largest", errors.largest},
          {"mean_absolute", errors.mean_absolute},
          {"bias", errors.bias}};
}

Json summary_json(const calibrate::StepSummary& summary) {
  return {{"name", summary.name},
          {"rows", summary.prediction.rows},
          {"prediction", errors_json(summary.prediction)},
          {"baseline", errors_json(summary.baseline)}};
}

Json step_case_json(const calibrate::StepComparison& comparison) {
  const calibrate::StepCase& definition = comparison.definition;
  Json steps = Json::array();
  for (const calibrate::ComparedStep& row : comparison.steps) steps.push_back(step_json(row));
  Json summaries = Json::array();
  for (const calibrate::StepSummary& summary : comparison.summaries) summaries.push_back(summary_json(summary));
  Json demands = Json::array();
  for (const calibrate::ComparedDemand& row : comparison.demands) {
    Json json = summary_json(row.summary);
    json["mean_absolute_error_tolerance"] = row.demand.mean_absolute_error;
    json["bias_tolerance"] = row.demand.bias;
    json["within_tolerance"] = row.holds();
    json["reaches_aim"] = row.reaches_aim();
    demands.push_back(std::move(json));
  }
  return {{"name", definition.name},
          {"naive", {{"mfu", definition.naive_mfu}, {"source", definition.naive_source}}},
          {"passed", comparison.holds()},
          {"steps", std::move(steps)},
          {"summaries", std::move(summaries)},
          {"demands", std::move(demands)}};
}

}  // namespace

std::optional<double> error_of(const Figure& figure, std::optional<double> value) {
  return value ? std::optional(*value / figure.value - 1) : std::nullopt;
}

bool EvaluatedCase::holds() const {
  return std::ranges::all_of(figures, [](const EvaluatedFigure& row) { return row.within.value_or(true); }) &&
         std::ranges::all_of(aggregates, &EvaluatedAggregate::within);
}

EvaluatedCase evaluate(const ValidationCase& definition, const std::vector<calibrate::Prediction>& predictions,
                       const calibrate::Naive& naive) {
  EvaluatedCase evaluated{definition, naive.step.step.time_s, {}, {}};
  for (const Figure& figure : definition.figures) evaluated.figures.push_back(evaluate(figure, predictions, naive));
  for (const Aggregate& aggregate : definition.aggregates)
    evaluated.aggregates.push_back(evaluate(aggregate, evaluated.figures, predictions.size()));
  return evaluated;
}

std::string validation_json(const std::vector<EvaluatedCase>& cases,
                            const std::vector<calibrate::StepComparison>& step_cases) {
  Json json;
  json["plumbline"] = {{"version", model::version}, {"schema", model::schema}};
  json["passed"] = std::ranges::all_of(cases, &EvaluatedCase::holds) &&
                   std::ranges::all_of(step_cases, &calibrate::StepComparison::holds);
  Json& list = json["cases"] = Json::array();
  for (const EvaluatedCase& evaluated : cases) list.push_back(case_json(evaluated));
  for (const calibrate::StepComparison& comparison : step_cases) list.push_back(step_case_json(comparison));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace plumbline::cli
