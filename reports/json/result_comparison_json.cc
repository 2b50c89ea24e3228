#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "model/result/prediction_error.h"
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
  if (!subject.result || subject.serving) {
    for (const char* key : {"step", "interval", "bound", "run", "memory", "basis"}) json[key] = nullptr;
    json["plan"] = Json::parse(plan_json(subject.plan));
    json["fit"] = nullptr;
    if (!subject.serving) return json;
    json["serving"] = Json::parse(serving_quantities_json(*subject.serving));
    json["usd_per_gpu_hour"] = json_of<Json>(subject.usd_per_gpu_hour);
    return json;
  }
  // The keys are those of `simulate --json`; what a stored result lacks is null.
  Json result = Json::parse(to_json(*subject.result, subject.plan));
  if (!subject.stored.empty()) {
    const Json step = result["step"];
    result.update(Json::parse(subject.stored), true);
    result["step"] = step;  // by the keys of this version
  }
  for (const char* key : {"step", "interval", "bound", "run", "memory", "basis", "plan", "fit"})
    json[key] = result[key];
  return json;
}

Json difference_of(const model::ResultComparison::Difference& difference) {
  const model::Waterfall& waterfall = difference.waterfall;
  return {
      {"from", difference.from},
      {"to", difference.to},
      {"from_s", waterfall.from_s},
      {"to_s", waterfall.to_s},
      {"change_s", waterfall.change_s()},
      {"rows", list_of<Json>(waterfall.rows,
                             [&](const model::WaterfallRow& row) {
                               return joined<Json>({FIELDS(row, name, from_s, to_s), {{"change_s", row.change_s()}}});
                             })},
      {"reasons", model::main_reasons(waterfall)}};
}

Json row_of(const model::ComparedTime& row) {
  return {{"predicted_s", row.predicted_s.value_or(0)},
          {"measured_s", row.measured_s.value_or(0)},
          {"error", json_of<Json>(row.error())}};
}

Json named_row(const model::ComparedTime& row) { return joined<Json>({{{"name", row.name}}, row_of(row)}); }

Json rows_of(const model::PredictionError& error, const std::vector<model::ComparedTime>& rows) {
  return list_of<Json>(rows, [&](const model::ComparedTime& row) {
    return joined<Json>({named_row(row), {{"of_step", error.contribution(row)}}});
  });
}

Json overlapped_of(const model::OverlappedPairs::Prediction& prediction) {
  const auto& slots = prediction.slots;
  return joined<Json>({{{"count", slots.errors.size()}},
                       row_of(slots.each),
                       {{"errors", slots.errors},
                        {"median_error", slots.median_error()},
                        {"phases", list_of<Json>(slots.phases, named_row)},
                        {"classes", list_of<Json>(prediction.classes, named_row)},
                        {"operators", list_of<Json>(slots.kernels, named_row)}}});
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
  const auto& interval = subjects[pair.predicted].result->interval;
  const double measured = pair.error.step.measured_s.value_or(0);
  return {{"predicted", pair.predicted},
          {"measured", pair.measured},
          {"inside_interval", interval ? Json(interval->time_s.contains(measured)) : Json(nullptr)},
          {"share_of_interval_below", interval ? Json(interval->time_s.share_below(measured)) : Json(nullptr)},
          {"step", row_of(pair.error.step)},
          {"slots",
           list_of<Json>(pair.error.slots,
                         [](const model::SlotPrediction& slot) {
                           return joined<Json>({{{"name", slot.each.name}, {"count", slot.count}}, row_of(slot.each)});
                         })},
          {"parts", rows_of(pair.error, pair.error.parts)},
          {"classes", rows_of(pair.error, pair.error.classes)},
          {"overlapped", overlapped_of(pair.overlapped)},
          {"differing_keys", LISTED(pair.plans, key, predicted, measured)}};
}

}  // namespace

std::string result_comparison_json(const model::ResultComparison& comparison) {
  return document("compare",
                  Json{{"comparison",
                        {{"against", comparison.against == model::Against::first ? "first" : "previous"},
                         {"same_tokens", comparison.same_tokens}}},
                       {"subjects", list_of<Json>(comparison.subjects, subject_of)},
                       {"waterfalls", list_of<Json>(comparison.differences, difference_of)},
                       {"predicted_and_measured",
                        list_of<Json>(comparison.measured, [&](const model::ResultComparison::MeasuredPair& pair) {
                          return pair_of(comparison.subjects, pair);
                        })}});
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
    if (subject.serving)
      for (const char* key : {"serving", "usd_per_gpu_hour"}) row[key] = of[key];
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
