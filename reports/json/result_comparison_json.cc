#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "model/result/prediction_error.h"
#include "reports/json/detail/rows_csv.h"
#include "reports/json/document.h"
#include "reports/json/json.h"
#include "reports/text/compare/result_comparison.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

Json subject_of(const model::ComparisonSubject& subject) {
  const std::string reason = subject.reason();
  Json json = {{"name", subject.name},
               {"origin", subject.origin},
               {"feasible", reason.empty()},
               {"reason", text_or_null<Json>(reason)}};
  if (!subject.result) {
    for (const char* key : {"step", "interval", "bound", "run", "memory", "basis"}) json[key] = nullptr;
    json["plan"] = Json::parse(plan_json(subject.plan));
    return json;
  }
  // The keys are those of `simulate --json`; what a stored result lacks is null.
  Json result = Json::parse(to_json(*subject.result, subject.plan));
  if (!subject.stored.empty()) {
    const Json step = result["step"];
    result.update(Json::parse(subject.stored), true);
    result["step"] = step;  // by the keys of this version
  }
  for (const char* key : {"step", "interval", "bound", "run", "memory", "basis", "plan"}) json[key] = result[key];
  return json;
}

Json difference_of(const model::ResultComparison::Difference& difference) {
  const model::Waterfall& waterfall = difference.waterfall;
  Json rows = Json::array();
  for (const model::WaterfallRow& row : waterfall.rows)
    rows.push_back({{"name", row.name}, {"from_s", row.from_s}, {"to_s", row.to_s}, {"change_s", row.change_s()}});
  return {{"from", difference.from},
          {"to", difference.to},
          {"from_s", waterfall.from_s},
          {"to_s", waterfall.to_s},
          {"change_s", waterfall.change_s()},
          {"rows", rows},
          {"reasons", model::main_reasons(waterfall)}};
}

Json row_of(const model::ComparedTime& row) {
  return {{"predicted_s", row.predicted_s.value_or(0)},
          {"measured_s", row.measured_s.value_or(0)},
          {"error", value_or_null<Json>(row.error())}};
}

Json rows_of(const model::PredictionError& error, const std::vector<model::ComparedTime>& rows) {
  Json list = Json::array();
  for (const model::ComparedTime& row : rows) {
    Json& json = list.emplace_back(Json{{"name", row.name}});
    json.update(row_of(row));
    json["of_step"] = error.contribution(row);
  }
  return list;
}

Json plain_rows(const std::vector<model::ComparedTime>& rows) {
  Json list = Json::array();
  for (const model::ComparedTime& row : rows) list.emplace_back(Json{{"name", row.name}}).update(row_of(row));
  return list;
}

Json overlapped_of(const model::OverlappedPairs::Prediction& prediction) {
  Json json = {{"count", prediction.slots.errors.size()}};
  json.update(row_of(prediction.slots.each));
  json["errors"] = prediction.slots.errors;
  json["median_error"] = prediction.slots.median_error();
  json["phases"] = plain_rows(prediction.slots.phases);
  json["classes"] = plain_rows(prediction.classes);
  json["operators"] = plain_rows(prediction.slots.kernels);
  return json;
}

Json overlapped_of(const std::optional<model::OverlappedPairs>& pairs) {
  if (!pairs) return nullptr;
  Json json = overlapped_of(pairs->predicted);
  json["rank"] = pairs->predicted.slots.rank;
  json["baseline"] = pairs->by_baseline ? overlapped_of(*pairs->by_baseline) : Json(nullptr);
  if (pairs->by_baseline) json["baseline"]["profile"] = pairs->baseline;
  return json;
}

Json pair_of(const std::vector<model::ComparisonSubject>& subjects, const model::ResultComparison::MeasuredPair& pair) {
  Json slots = Json::array(), plans = Json::array();
  for (const model::SlotPrediction& slot : pair.error.slots) {
    Json& json = slots.emplace_back(Json{{"name", slot.each.name}, {"count", slot.count}});
    json.update(row_of(slot.each));
  }
  for (const model::ResultComparison::PlanDifference& difference : pair.plans)
    plans.push_back({{"key", difference.key}, {"predicted", difference.predicted}, {"measured", difference.measured}});
  const auto& interval = subjects[pair.predicted].result->interval;
  const double measured = pair.error.step.measured_s.value_or(0);
  return {{"predicted", pair.predicted},
          {"measured", pair.measured},
          {"inside_interval", interval ? Json(interval->time_s.contains(measured)) : Json(nullptr)},
          {"share_of_interval_below", interval ? Json(interval->time_s.share_below(measured)) : Json(nullptr)},
          {"step", row_of(pair.error.step)},
          {"slots", slots},
          {"parts", rows_of(pair.error, pair.error.parts)},
          {"classes", rows_of(pair.error, pair.error.classes)},
          {"overlapped", overlapped_of(pair.overlapped)},
          {"differing_keys", plans}};
}

}  // namespace

std::string result_comparison_json(const model::ResultComparison& comparison) {
  Json subjects = Json::array(), differences = Json::array(), pairs = Json::array();
  for (const model::ComparisonSubject& subject : comparison.subjects) subjects.push_back(subject_of(subject));
  for (const model::ResultComparison::Difference& difference : comparison.differences)
    differences.push_back(difference_of(difference));
  for (const model::ResultComparison::MeasuredPair& pair : comparison.measured)
    pairs.push_back(pair_of(comparison.subjects, pair));
  return document("compare", Json{{"comparison",
                                   {{"against", comparison.against == model::Against::first ? "first" : "previous"},
                                    {"same_tokens", comparison.same_tokens}}},
                                  {"subjects", subjects},
                                  {"waterfalls", differences},
                                  {"predicted_and_measured", pairs}});
}

std::string result_comparison_csv(const model::ResultComparison& comparison) {
  Json rows = Json::array();
  const auto name = [&](std::size_t subject) { return comparison.subjects[subject].name; };
  const auto add = [&rows](Json row, const Json& figures) {
    row.update(figures);
    rows.push_back(std::move(row));
  };
  for (const model::ComparisonSubject& subject : comparison.subjects) {
    const Json of = subject_of(subject);
    Json row = {{"table", "subjects"}};
    for (const char* key : {"name", "feasible", "reason", "step", "memory"}) row[key] = of[key];
    if (row["memory"].is_object()) row["memory"].erase("stages");
    rows.push_back(std::move(row));
  }
  for (const model::ResultComparison::Difference& difference : comparison.differences)
    for (const Json& row : difference_of(difference)["rows"])
      add({{"table", "waterfalls"}, {"from", name(difference.from)}, {"to", name(difference.to)}}, row);
  for (const model::ResultComparison::MeasuredPair& pair : comparison.measured) {
    const Json of = pair_of(comparison.subjects, pair);
    const auto head = [&](const char* table) {
      return Json{{"table", table}, {"predicted", name(pair.predicted)}, {"measured", name(pair.measured)}};
    };
    add(head("step"), of["step"]);
    for (const char* table : {"slots", "parts", "classes"})
      for (const Json& row : of[table]) add(head(table), row);
  }
  return csv_of_rows(rows);
}

}  // namespace plumbline::reports
