#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/residuals/regression.h"
#include "calibrate/validate/step_case.h"
#include "reports/json/document.h"
#include "reports/text/compare/validation_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

Json by_profile(const std::vector<std::string>& profiles, const std::vector<std::optional<double>>& values) {
  Json json = Json::object();
  for (std::size_t i = 0; i < profiles.size(); ++i) json[profiles[i]] = json_of<Json>(values[i]);
  return json;
}

Json figure_json(const calibrate::EvaluatedFigure& row, const std::vector<std::string>& profiles) {
  std::vector<std::optional<double>> errors;
  for (const std::optional<double>& value : row.predicted) errors.push_back(calibrate::error_of(row.figure, value));
  Json intervals = Json::object();
  for (std::size_t i = 0; i < row.intervals.size(); ++i)
    if (const auto& interval = row.intervals[i])
      intervals[profiles[i]] = joined<Json>({FIELDS(*interval, p10, p50, p90),
                                             {{"inside", interval->contains(row.figure.value)},
                                              {"share_below", interval->share_below(row.figure.value)}}});
  return joined<Json>(
      {{{"name", row.figure.name},
        {"metric", row.figure.metric},
        {"group", text_or_null<Json>(row.figure.group)},
        {"unit", row.figure.unit},
        {"published", row.figure.value},
        {"predicted", by_profile(profiles, row.predicted)},
        {"error", by_profile(profiles, errors)},
        {"interval", intervals},
        {"naive", json_of<Json>(row.naive)},
        {"naive_error", json_of<Json>(calibrate::error_of(row.figure, row.naive))}},
       FIELDS(row.figure, tolerance, absolute_tolerance, at_most, aim),
       {{"within_tolerance", row.within ? Json(*row.within) : Json(nullptr)}, {"source", row.figure.source}}});
}

Json aggregate_json(const calibrate::EvaluatedAggregate& row, const std::vector<std::string>& profiles) {
  return joined<Json>({FIELDS(row.aggregate, name, over, statistic),
                       {{"value", by_profile(profiles, row.values)},
                        {"tolerance", row.aggregate.tolerance},
                        {"within_tolerance", row.within}}});
}

Json case_json(const calibrate::EvaluatedCase& evaluated) {
  const calibrate::ValidationCase& definition = evaluated.definition;
  return {
      {"name", definition.name},
      {"plan", definition.plan},
      {"profiles", definition.profiles},
      {"naive",
       {{"mfu", definition.naive_mfu}, {"step_time_s", evaluated.naive_step_s}, {"source", definition.naive_source}}},
      {"passed", evaluated.holds()},
      {"figures",
       list_of<Json>(evaluated.figures,
                     [&](const calibrate::EvaluatedFigure& row) { return figure_json(row, definition.profiles); })},
      {"aggregates", list_of<Json>(evaluated.aggregates, [&](const calibrate::EvaluatedAggregate& row) {
         return aggregate_json(row, definition.profiles);
       })}};
}

Json range_json(const std::optional<calibrate::PredictedRange>& range) {
  if (!range) return nullptr;
  return joined<Json>({FIELDS(range->quantiles, p10, p50, p90), {{"pit", range->below()}}});
}

Json compared_step_json(const calibrate::ComparedStep& row) {
  const calibrate::PublishedStep& step = row.step;
  Json memory = nullptr;
  if (step.memory_bytes || row.peak_bytes) {
    const bool both = step.memory_bytes && row.peak_bytes;
    memory = {{"measured_bytes", json_of<Json>(step.memory_bytes)},
              {"predicted_peak_bytes", json_of<Json>(row.peak_bytes)},
              {"predicted_comparable_bytes", json_of<Json>(row.comparable_bytes)},
              {"error_bytes", both ? Json(*row.comparable_bytes - *step.memory_bytes) : Json(nullptr)},
              {"interval", range_json(row.ranges.memory)},
              {"fits", row.peak_bytes ? Json(*row.peak_bytes <= row.capacity_bytes) : Json(nullptr)},
              {"fits_probability", json_of<Json>(row.ranges.fits_probability)}};
  }
  return joined<Json>({FIELDS(step, id, set, variant, model, hardware),
                       {{"layout", step.layout()},
                        {"profile", text_or_null<Json>(row.profile)},
                        {"measured_s", json_of<Json>(step.seconds)},
                        {"measured_from", text_or_null<Json>(step.time)},
                        {"predicted_s", json_of<Json>(row.predicted)},
                        {"error", json_of<Json>(row.prediction_error())},
                        {"interval", range_json(row.ranges.step)},
                        {"baseline_s", json_of<Json>(row.baseline)},
                        {"baseline_error", json_of<Json>(row.baseline_error())},
                        {"memory", std::move(memory)},
                        {"lacks", Json(row.lacking)},
                        {"assumed", Json(step.assumed)},
                        {"not_modelled", Json(row.missing)},
                        {"held_out", Json(row.held_out)},
                        {"not_simulated", row.error ? Json(row.error->message) : Json(nullptr)},
                        {"source", step.source}}});
}

Json errors_json(const calibrate::StepErrors& errors) {
  return FIELDS(errors, median_absolute, largest, mean_absolute, bias);
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
  return joined<Json>({{{"name", order.name}, {"runs", order.clusters}, {"plans", order.rows}},
                       FIELDS(order, tau, regret, random_regret)});
}

Json residuals_json(const calibrate::ResidualRegression& set) {
  return joined<Json>({FIELDS(set, name, rows, before, after),
                       {{"causes", LISTED(set.causes, cause, share, excess, uncertainty, explains)}}});
}

Json step_case_json(const calibrate::StepComparison& comparison) {
  const calibrate::StepCase& definition = comparison.definition;
  Json demands = list_of<Json>(comparison.demands, [](const calibrate::ComparedDemand& row) {
    return joined<Json>({summary_json(row.summary),
                         {{"mean_absolute_error_tolerance", row.demand.mean_absolute_error},
                          {"bias_tolerance", row.demand.bias},
                          {"within_tolerance", row.holds()},
                          {"reaches_aim", row.reaches_aim()}}});
  });
  return {{"name", definition.name},
          {"naive", {{"mfu", definition.naive_mfu}, {"source", definition.naive_source}}},
          {"passed", comparison.holds()},
          {"steps", list_of<Json>(comparison.steps, compared_step_json)},
          {"summaries", list_of<Json>(comparison.summaries, summary_json)},
          {"orders", list_of<Json>(comparison.orders, order_json)},
          {"scatter", FIELDS(comparison.scatter, schedules, layouts)},
          {"residuals", list_of<Json>(comparison.residuals, residuals_json)},
          {"demands", std::move(demands)}};
}

Json score_json(const calibrate::IntervalScore& score) {
  if (score.rows == 0) return nullptr;
  return joined<Json>({FIELDS(score, rows, coverage, half_width, pinball),
                       {{"middle", errors_json(score.middle)}, {"tenths", score.tenths}}});
}

Json intervals_json(const calibrate::IntervalScores& scores) {
  Json json = Json::array();
  for (const auto& [name, ranges] : scores.scores)
    json.push_back({{"name", name},
                    {"step", score_json(ranges.step)},
                    {"baseline", score_json(ranges.baseline)},
                    {"memory", score_json(ranges.memory)},
                    {"fits_brier", ranges.fits.brier},
                    {"fits", FIELDS(ranges.fits, rows, fit, fit_wrong, unfit, unfit_wrong)}});
  return json;
}

Json component_case_json(const calibrate::ComponentComparison& comparison) {
  Json json;
  json["name"] = comparison.definition.name;
  json["passed"] = comparison.holds();
  Json& rows = json["components"] = Json::array();
  for (const calibrate::ComponentErrors& errors : comparison.profiles)
    for (const calibrate::HeldOutSummary& of : errors.summaries) {
      const calibrate::ComponentGoal* goal = of.table.empty() ? comparison.goal(of.family) : nullptr;
      rows.push_back(
          joined<Json>({{{"profile", errors.profile}, {"family", of.family}, {"table", text_or_null<Json>(of.table)}},
                        FIELDS(of, fitted_rows, rows, median, p90, roofline_median, roofline_p90),
                        {{"goal", goal == nullptr ? Json() : Json(goal->median)},
                         {"goal_p90", goal == nullptr ? Json() : json_of<Json>(goal->p90)}}}));
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
  Json rows = Json::array();
  for (const calibrate::ComparedServing& row : comparison.rows) {
    rows.push_back(joined<Json>({FIELDS(row.row, id, set, average),
                                 {{"lacking", row.lacking},
                                  {"error", row.error ? Json(row.error->message) : Json()},
                                  {"figures", list_of<Json>(row.figures, [&](const calibrate::ComparedFigure& figure) {
                                     return joined<Json>({FIELDS(figure, name, published, predicted),
                                                          {{"error", figure.error()}, {"roofline", figure.roofline}}});
                                   })}}}));
  }
  Json demands = list_of<Json>(comparison.demands, [](const calibrate::ComparedServingDemand& demand) {
    return joined<Json>({serving_errors_json(demand.summary),
                         {{"aim", json_of<Json>(demand.demand.aim)},
                          {"tolerance", json_of<Json>(demand.demand.limit)},
                          {"within_tolerance", demand.holds()},
                          {"reaches_aim", demand.reaches_aim()}}});
  });
  return {{"name", comparison.definition.name},
          {"passed", comparison.holds()},
          {"deployments", std::move(rows)},
          {"summaries", list_of<Json>(comparison.summaries, serving_errors_json)},
          {"demands", std::move(demands)},
          {"orders", list_of<Json>(comparison.orders, order_json)},
          {"tensor_ratios", LISTED(comparison.ratios, set, rows, median_error)},
          {"splits", list_of<Json>(comparison.splits,
                                   [](const calibrate::TokenTimeSplit& split) {
                                     return Json{{"set", split.set},
                                                 {"deployments", split.decode.rows},
                                                 {"decode", errors_json(split.decode)},
                                                 {"prompts", errors_json(split.prompts)}};
                                   })},
          {"engines", LISTED(comparison.engines, engine, rows, sets)}};
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

Json of_entry(const model::Quantiles& q, std::optional<double> measured) {
  Json json = joined<Json>({FIELDS(q, p10, p50, p90), {{"measured", json_of<Json>(measured)}}});
  if (!measured) return json;
  json["inside"] = q.contains(*measured);
  json["share_below"] = q.share_below(*measured);
  json["error"] = q.p50 / *measured - 1;
  return json;
}

Json of_entry(const calibrate::LedgerEntry& entry) {
  const auto& measured = entry.measured;
  Json json =
      joined<Json>({{{"file", entry.path}},
                    FIELDS(entry, date, revision, plan, profile),
                    {{"stack", text_or_null<Json>(entry.stack)},
                     {"constants_hash", entry.constants_hash},
                     {"time_s", of_entry(entry.time, measured ? std::optional(measured->time_s) : std::nullopt)},
                     {"peak_bytes", of_entry(entry.peak_bytes, measured ? measured->peak_bytes : std::nullopt)}}});
  json["measured_date"] = measured ? Json(measured->date) : Json();
  json["source"] = measured ? Json(measured->source) : Json();
  return json;
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

// Predictions that were made before their measurement, as JSON.

std::string ledger_json(const std::vector<calibrate::LedgerEntry>& entries) {
  const auto inside = [](const calibrate::LedgerEntry& entry) {
    return entry.measured && entry.time.contains(entry.measured->time_s);
  };
  const auto measured = std::ranges::count_if(entries, [](const auto& entry) { return entry.measured.has_value(); });
  Json json;
  json["measured"] = measured;
  json["open"] = static_cast<std::ptrdiff_t>(entries.size()) - measured;
  json["inside"] = std::ranges::count_if(entries, inside);
  Json& list = json["entries"] = Json::array();
  for (const calibrate::LedgerEntry& entry : entries) list.push_back(of_entry(entry));
  return document("validate-ledger", json);
}

std::string ledger_csv(const std::vector<calibrate::LedgerEntry>& entries) {
  return csv_of_rows(list_of<Json>(entries, [&](const calibrate::LedgerEntry& entry) { return of_entry(entry); }));
}

}  // namespace plumbline::reports
