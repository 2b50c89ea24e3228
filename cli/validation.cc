#include "cli/validation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/version.h"

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

std::string validation_json(const std::vector<EvaluatedCase>& cases) {
  Json json;
  json["plumbline"] = {{"version", model::version}, {"schema", model::schema}};
  json["passed"] = std::ranges::all_of(cases, &EvaluatedCase::holds);
  Json& list = json["cases"] = Json::array();
  for (const EvaluatedCase& evaluated : cases) list.push_back(case_json(evaluated));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace plumbline::cli
