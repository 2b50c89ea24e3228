#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "calibrate/residuals/plan_order.h"
#include "calibrate/residuals/regression.h"
#include "calibrate/validate/published_steps.h"
#include "reports/json/detail/rows_csv.h"
#include "reports/json/document.h"
#include "reports/text/compare/validation_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

Json by_profile(const std::vector<std::string>& profiles, const std::vector<std::optional<double>>& values) {
  Json json = Json::object();
  for (std::size_t i = 0; i < profiles.size(); ++i) json[profiles[i]] = value_or_null<Json>(values[i]);
  return json;
}

Json figure_json(const calibrate::EvaluatedFigure& row, const std::vector<std::string>& profiles) {
  std::vector<std::optional<double>> errors;
  for (const std::optional<double>& value : row.predicted) errors.push_back(calibrate::error_of(row.figure, value));
  Json intervals = Json::object();
  for (std::size_t i = 0; i < row.intervals.size(); ++i)
    if (const auto& interval = row.intervals[i])
      intervals[profiles[i]] = {{"p10", interval->p10},
                                {"p50", interval->p50},
                                {"p90", interval->p90},
                                {"inside", interval->contains(row.figure.value)},
                                {"share_below", interval->share_below(row.figure.value)}};
  return {{"name", row.figure.name},
          {"metric", row.figure.metric},
          {"group", text_or_null<Json>(row.figure.group)},
          {"unit", row.figure.unit},
          {"published", row.figure.value},
          {"predicted", by_profile(profiles, row.predicted)},
          {"error", by_profile(profiles, errors)},
          {"interval", intervals},
          {"naive", value_or_null<Json>(row.naive)},
          {"naive_error", value_or_null<Json>(calibrate::error_of(row.figure, row.naive))},
          {"tolerance", value_or_null<Json>(row.figure.tolerance)},
          {"absolute_tolerance", value_or_null<Json>(row.figure.absolute_tolerance)},
          {"at_most", value_or_null<Json>(row.figure.at_most)},
          {"aim", value_or_null<Json>(row.figure.aim)},
          {"within_tolerance", row.within ? Json(*row.within) : Json(nullptr)},
          {"source", row.figure.source}};
}

Json aggregate_json(const calibrate::EvaluatedAggregate& row, const std::vector<std::string>& profiles) {
  return {{"name", row.aggregate.name},
          {"over", row.aggregate.over},
          {"statistic", calibrate::to_string(row.aggregate.statistic)},
          {"value", by_profile(profiles, row.values)},
          {"tolerance", row.aggregate.tolerance},
          {"within_tolerance", row.within}};
}

Json case_json(const calibrate::EvaluatedCase& evaluated) {
  const calibrate::ValidationCase& definition = evaluated.definition;
  Json figures = Json::array();
  for (const calibrate::EvaluatedFigure& row : evaluated.figures)
    figures.push_back(figure_json(row, definition.profiles));
  Json aggregates = Json::array();
  for (const calibrate::EvaluatedAggregate& row : evaluated.aggregates)
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

Json range_json(const std::optional<calibrate::PredictedRange>& range) {
  if (!range) return nullptr;
  return {{"p10", range->quantiles.p10},
          {"p50", range->quantiles.p50},
          {"p90", range->quantiles.p90},
          {"pit", range->below()}};
}

Json compared_step_json(const calibrate::ComparedStep& row) {
  const calibrate::PublishedStep& step = row.step;
  Json memory = nullptr;
  if (step.memory_bytes || row.peak_bytes) {
    const bool both = step.memory_bytes && row.peak_bytes;
    memory = {{"measured_bytes", value_or_null<Json>(step.memory_bytes)},
              {"predicted_peak_bytes", value_or_null<Json>(row.peak_bytes)},
              {"predicted_comparable_bytes", value_or_null<Json>(row.comparable_bytes)},
              {"error_bytes", both ? Json(*row.comparable_bytes - *step.memory_bytes) : Json(nullptr)},
              {"interval", range_json(row.ranges.memory)},
              {"fits", row.peak_bytes ? Json(*row.peak_bytes <= row.capacity_bytes) : Json(nullptr)},
              {"fits_probability", value_or_null<Json>(row.ranges.fits_probability)}};
  }
  return {{"id", step.id},
          {"set", step.set},
          {"variant", step.variant},
          {"model", step.model},
          {"hardware", step.hardware},
          {"layout", step.layout()},
          {"profile", text_or_null<Json>(row.profile)},
          {"measured_s", value_or_null<Json>(step.seconds)},
          {"measured_from", text_or_null<Json>(step.time)},
          {"predicted_s", value_or_null<Json>(row.predicted)},
          {"error", value_or_null<Json>(row.prediction_error())},
          {"interval", range_json(row.ranges.step)},
          {"baseline_s", value_or_null<Json>(row.baseline)},
          {"baseline_error", value_or_null<Json>(row.baseline_error())},
          {"memory", std::move(memory)},
          {"lacks", Json(row.lacking)},
          {"assumed", Json(step.assumed)},
          {"not_modelled", Json(row.missing)},
          {"held_out", Json(row.held_out)},
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
          {"baseline", errors_json(summary.baseline)},
          {"memory", summary.memory.rows > 0 ? errors_json(summary.memory) : Json()},
          {"stated_fits", summary.stated_fits},
          {"right_fits", summary.right_fits}};
}

Json order_json(const calibrate::PlanOrder& order) {
  return {{"name", order.name}, {"runs", order.clusters}, {"plans", order.rows},
          {"tau", order.tau},   {"regret", order.regret}, {"random_regret", order.random_regret}};
}

Json residuals_json(const calibrate::ResidualRegression& set) {
  Json causes = Json::array();
  for (const calibrate::ResidualCause& cause : set.causes)
    causes.push_back({{"cause", to_string(cause.cause)},
                      {"share", cause.share},
                      {"excess", cause.excess},
                      {"uncertainty", cause.uncertainty},
                      {"explains", cause.explains}});
  return {{"name", set.name},
          {"rows", set.rows},
          {"before", set.before},
          {"after", set.after},
          {"causes", std::move(causes)}};
}

Json step_case_json(const calibrate::StepComparison& comparison) {
  const calibrate::StepCase& definition = comparison.definition;
  Json steps = Json::array();
  for (const calibrate::ComparedStep& row : comparison.steps) steps.push_back(compared_step_json(row));
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
  Json orders = Json::array(), residuals = Json::array();
  for (const calibrate::PlanOrder& order : comparison.orders) orders.push_back(order_json(order));
  for (const calibrate::ResidualRegression& set : comparison.residuals) residuals.push_back(residuals_json(set));
  return {{"name", definition.name},
          {"naive", {{"mfu", definition.naive_mfu}, {"source", definition.naive_source}}},
          {"passed", comparison.holds()},
          {"steps", std::move(steps)},
          {"summaries", std::move(summaries)},
          {"orders", std::move(orders)},
          {"scatter", {{"schedules", comparison.scatter.schedules}, {"layouts", comparison.scatter.layouts}}},
          {"residuals", std::move(residuals)},
          {"demands", std::move(demands)}};
}

Json score_json(const calibrate::IntervalScore& score) {
  if (score.rows == 0) return nullptr;
  return {{"rows", score.rows},       {"coverage", score.coverage},          {"half_width", score.half_width},
          {"pinball", score.pinball}, {"middle", errors_json(score.middle)}, {"tenths", score.tenths}};
}

Json intervals_json(const calibrate::IntervalScores& scores) {
  Json json = Json::array();
  for (const auto& [name, ranges] : scores.scores)
    json.push_back({{"name", name},
                    {"step", score_json(ranges.step)},
                    {"baseline", score_json(ranges.baseline)},
                    {"memory", score_json(ranges.memory)},
                    {"fits_brier", ranges.fits.brier}});
  return json;
}

Json component_case_json(const calibrate::ComponentComparison& comparison) {
  Json json;
  json["name"] = comparison.definition.name;
  json["passed"] = comparison.holds();
  Json& rows = json["components"] = Json::array();
  for (const calibrate::ComponentErrors& errors : comparison.profiles)
    for (const calibrate::HeldOutSummary& of : errors.summaries) {
      Json row;
      row["profile"] = errors.profile;
      row["family"] = of.family;
      row["table"] = of.table.empty() ? Json() : Json(of.table);
      row["fitted_rows"] = of.fitted_rows;
      row["rows"] = of.rows;
      row["median"] = of.median;
      row["p90"] = of.p90;
      row["roofline_median"] = of.roofline_median;
      row["roofline_p90"] = of.roofline_p90;
      const calibrate::ComponentGoal* goal = of.table.empty() ? comparison.goal(of.family) : nullptr;
      row["goal"] = goal == nullptr ? Json() : Json(goal->median);
      row["goal_p90"] = goal == nullptr || !goal->p90 ? Json() : Json(*goal->p90);
      rows.push_back(std::move(row));
    }
  return json;
}

Json serving_errors_json(const calibrate::ServingSummary& summary) {
  return {{"name", summary.name},
          {"figure", summary.figure},
          {"prediction", errors_json(summary.prediction)},
          {"roofline", errors_json(summary.roofline)},
          {"interval", score_json(summary.interval)}};
}

Json serving_case_json(const calibrate::ServingComparison& comparison) {
  Json rows = Json::array(), summaries = Json::array(), demands = Json::array(), orders = Json::array(),
       ratios = Json::array();
  for (const calibrate::ComparedServing& row : comparison.rows) {
    Json figures = Json::array();
    for (const calibrate::ComparedFigure& figure : row.figures)
      figures.push_back({{"name", figure.name},
                         {"published", figure.published},
                         {"predicted", figure.predicted},
                         {"error", figure.error()},
                         {"roofline", figure.roofline}});
    rows.push_back({{"id", row.row.id},
                    {"set", row.row.set},
                    {"average", row.row.average},
                    {"lacking", row.lacking},
                    {"error", row.error ? Json(row.error->message) : Json()},
                    {"figures", std::move(figures)}});
  }
  for (const calibrate::ServingSummary& summary : comparison.summaries)
    summaries.push_back(serving_errors_json(summary));
  for (const calibrate::ComparedServingDemand& demand : comparison.demands) {
    Json json = serving_errors_json(demand.summary);
    json["aim"] = value_or_null<Json>(demand.demand.aim);
    json["tolerance"] = value_or_null<Json>(demand.demand.limit);
    json["within_tolerance"] = demand.holds();
    json["reaches_aim"] = demand.reaches_aim();
    demands.push_back(std::move(json));
  }
  for (const calibrate::PlanOrder& order : comparison.orders) orders.push_back(order_json(order));
  for (const calibrate::TensorRatios& of : comparison.ratios)
    ratios.push_back({{"set", of.set}, {"rows", of.rows}, {"median_error", of.median_error}});
  return {{"name", comparison.definition.name}, {"passed", comparison.holds()},  {"deployments", std::move(rows)},
          {"summaries", std::move(summaries)},  {"demands", std::move(demands)}, {"orders", std::move(orders)},
          {"tensor_ratios", std::move(ratios)}};
}

Json cases_json(const ValidationOutcome& outcome) {
  Json list = Json::array();
  for (const calibrate::EvaluatedCase& evaluated : outcome.figures) list.push_back(case_json(evaluated));
  for (const calibrate::StepComparison& comparison : outcome.steps) list.push_back(step_case_json(comparison));
  for (const calibrate::ComponentComparison& comparison : outcome.components)
    list.push_back(component_case_json(comparison));
  for (const calibrate::ServingComparison& comparison : outcome.serving) list.push_back(serving_case_json(comparison));
  return list;
}

bool lists_objects(const Json& value) { return value.is_array() && !value.empty() && value.front().is_object(); }

// Adds a row of a table, or, where it has a list of objects (the figures of a deployment), one for each of these.
void add_rows(const Json& head, const Json& object, Json& rows) {
  Json row = head;
  row.update(object);
  const auto list = std::ranges::find_if(object.items(), [](const auto& item) { return lists_objects(item.value()); });
  if (list == object.items().end()) {
    rows.push_back(std::move(row));
    return;
  }
  for (const Json& part : list.value()) {
    row[list.key()] = part;
    rows.push_back(row);
  }
}

}  // namespace

std::string validation_json(const ValidationOutcome& outcome) {
  Json json;
  const calibrate::IntervalScores scores = calibrate::interval_scores(outcome.steps);
  json["passed"] = scores.holds() && std::ranges::all_of(outcome.figures, &calibrate::EvaluatedCase::holds) &&
                   std::ranges::all_of(outcome.steps, &calibrate::StepComparison::holds) &&
                   std::ranges::all_of(outcome.components, &calibrate::ComponentComparison::holds) &&
                   std::ranges::all_of(outcome.serving, &calibrate::ServingComparison::holds);
  json["cases"] = cases_json(outcome);
  json["intervals"] = intervals_json(scores);
  return document("validate", json);
}

std::string validation_csv(const ValidationOutcome& outcome) {
  Json rows = Json::array();
  for (const Json& one : cases_json(outcome))
    for (const auto& [table, list] : one.items()) {
      if (!lists_objects(list)) continue;
      for (const Json& row : list) add_rows({{"case", one["name"]}, {"table", table}}, row, rows);
    }
  for (const Json& row : intervals_json(calibrate::interval_scores(outcome.steps)))
    add_rows({{"case", nullptr}, {"table", "intervals"}}, row, rows);
  return csv_of_rows(rows);
}

}  // namespace plumbline::reports
