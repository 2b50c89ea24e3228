#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "model/result/prediction_error.h"
#include "reports/json/detail/schemas.h"
#include "reports/json/detail/serving_parts.h"
#include "reports/json/detail/step_parts.h"
#include "reports/json/json.h"
#include "reports/text/compare/result_comparison.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

// Returns the keys of `simulate --json` of a subject that has a step, what a stored result lacks null; else nothing.
Json keys_of_step(const model::ComparisonSubject& subject) {
  if (!subject.result || subject.serving) return Json::object();
  Json result = step_keys<Json>(*subject.result, subject.plan);
  if (subject.stored.empty()) return result;
  const Json step = result["step"];
  result.update(Json::parse(subject.stored), true);
  result["step"] = step;  // by the keys of this version
  return result;
}

}  // namespace

void fields(auto& to, const model::ComparisonSubject& subject) {
  const Json result = keys_of_step(subject);
  const std::string reason = subject.reason();
  const auto part = [&result](const char* key) {
    return Stated<Json>{result.contains(key) ? result[key] : Json(nullptr), or_null(reference<Json>(key))};
  };
  const bool serves = subject.serving.has_value();
  to("name", "name of the subject", subject.name);
  to("origin", "where the subject is from", subject.origin);
  to("feasible", "whether the plan can be laid out and fits", reason.empty());
  to("reason", "why not, where it cannot be", unless_empty(reason));
  to("step", "the step", part("step"));
  to("interval", "range with p10, p50 and p90", part("interval"));
  to("bound", "the proven lower bound of the step", part("bound"));
  to("run", "the whole training", part("run"));
  to("memory", "memory of the ranks", part("memory"));
  to("basis", "what the prediction rests on", part("basis"));
  to("plan", "",
     Stated<Json>{result.contains("plan") ? result["plan"] : plan_part<Json>(subject.plan).value,
                  reference<Json>("plan")});
  to("fit", "", Stated<Json>{part("fit").value, reference<Json>("fit")});
  to.only_where(serves, "serving", "", subject.serving.value_or(model::ServingResult()));
  to.only_where(serves, "usd_per_gpu_hour", "of a deployment: price of a GPU for an hour", subject.usd_per_gpu_hour);
  const model::RolloutResult* rollout = subject.result && subject.result->rollout ? &*subject.result->rollout : nullptr;
  to.only_where(
      rollout != nullptr, "rollout",
      "of a plan with [rollout]: a step of reinforcement learning, whose update of the policy `step` is",
      Object([&](auto& part_to) { rollout_fields(part_to, rollout != nullptr ? *rollout : model::RolloutResult()); }));
}

void fields(auto& to, const model::ResultComparison::Difference& difference) {
  const model::Waterfall& waterfall = difference.waterfall;
  to("from", "position in subjects", difference.from);
  to("to", "last value", difference.to);
  to("from_s", "seconds before", waterfall.from_s);
  to("to_s", "seconds after", waterfall.to_s);
  to("change_s", "seconds more than before", waterfall.change_s());
  to("rows", "rows", List(waterfall.rows, [](auto& row_to, const model::WaterfallRow& row) {
       row_to("name", "name of the row", row.name);
       row_to("from_s", "seconds before", row.from_s);
       row_to("to_s", "seconds after", row.to_s);
       row_to("change_s", "seconds more than before", row.change_s());
     }));
  to("reasons", "what explains the change", model::main_reasons(waterfall));
}

namespace {

void time_fields(auto& to, const model::ComparedTime& row) {
  to("predicted_s", "predicted seconds", row.predicted_s.value_or(0));
  to("measured_s", "measured seconds", row.measured_s.value_or(0));
  to("error", "predicted over measured, less one", row.error());
}

auto named_rows(const std::vector<model::ComparedTime>& rows) {
  return List(rows, [](auto& to, const model::ComparedTime& row) {
    to("name", "name of the row", row.name);
    time_fields(to, row);
  });
}

auto rows_of_step(const model::PredictionError& error, const std::vector<model::ComparedTime>& rows) {
  return List(rows, [&error](auto& to, const model::ComparedTime& row) {
    to("name", "name of the row", row.name);
    time_fields(to, row);
    to("of_step", "share of the error of the step", error.contribution(row));
  });
}

void overlapped_fields(auto& to, const model::OverlappedPairs::Prediction& prediction) {
  const model::OverlappedSlots& slots = prediction.slots;
  to("count", "how many", slots.errors.size());
  time_fields(to, slots.each);
  to("errors", "error of each of them, relative", slots.errors);
  to("median_error", "median error, relative", slots.errors.empty() ? std::nullopt : if_finite(slots.median_error()));
  to("phases", "phases one by one", named_rows(slots.phases));
  to("classes", "time by class of kernels", named_rows(prediction.classes));
  to("operators", "time by operator", named_rows(slots.kernels));
}

void pair_fields(auto& to, const std::vector<model::ComparisonSubject>& subjects,
                 const model::ResultComparison::MeasuredPair& pair) {
  const auto interval = pair.predicted < subjects.size() ? subjects[pair.predicted].result->interval : std::nullopt;
  const double measured = pair.error.step.measured_s.value_or(0);
  to("predicted", "position in subjects", pair.predicted);
  to("measured", "what was measured", pair.measured);
  to("inside_interval", "whether the measured step lies in the predicted range",
     interval ? std::optional(interval->time_s.contains(measured)) : std::nullopt);
  to("share_of_interval_below", "share of the range below the measured step",
     interval ? std::optional(interval->time_s.share_below(measured)) : std::nullopt);
  to("step", "the step", Object([&pair](auto& part_to) { time_fields(part_to, pair.error.step); }));
  to("slots", "slots: passes of chunks", List(pair.error.slots, [](auto& slot_to, const model::SlotPrediction& slot) {
       slot_to("name", "name of the kind of slot", slot.each.name);
       slot_to("count", "how many", slot.count);
       time_fields(slot_to, slot.each);
     }));
  to("parts", "the parts it is made of", rows_of_step(pair.error, pair.error.parts));
  to("classes", "time by class of kernels", rows_of_step(pair.error, pair.error.classes));
  to("overlapped", "slots that overlap with communication",
     Maybe(pair.overlapped, [](auto& pairs_to, const model::OverlappedPairs& pairs) {
       overlapped_fields(pairs_to, pairs.predicted);
       pairs_to("rank", "pipeline rank", pairs.predicted.slots.rank);
       pairs_to("baseline", "what the errors of a prediction without the method are",
                Maybe(pairs.by_baseline, [&pairs](auto& baseline_to, const auto& prediction) {
                  overlapped_fields(baseline_to, prediction);
                  baseline_to("profile", "profile with the constants", pairs.baseline);
                }));
     }));
  to("differing_keys", "keys of the plan in which both differ",
     List(pair.plans, [](auto& key_to, const model::ResultComparison::PlanDifference& difference) {
       key_to("key", "key of a plan or constant of a profile", difference.key);
       key_to("predicted", "what was predicted", difference.predicted);
       key_to("measured", "what was measured", difference.measured);
     }));
}

void comparison_of_results(auto& to, const model::ResultComparison& comparison) {
  to("comparison", "the comparison", Object([&comparison](auto& part_to) {
       part_to("against", "which subject the others are compared with",
               Word{comparison.against == model::Against::first ? "first" : "previous", {"first", "previous"}});
       part_to("same_tokens", "whether all steps have the same tokens", comparison.same_tokens);
     }));
  to("subjects", "what is compared, in order", comparison.subjects);
  to("waterfalls",
     "from one subject to the next, cause by cause: seconds of steps, by part where these are of reinforcement "
     "learning, or GPU-seconds of a thousand output tokens",
     comparison.differences);
  to("predicted_and_measured", "each prediction next to its measurement",
     List(comparison.measured,
          [&](auto& pair_to, const auto& pair) { pair_fields(pair_to, comparison.subjects, pair); }));
}

}  // namespace

std::string result_comparison_json(const model::ResultComparison& comparison) {
  return document("compare", object_of<Json>([&](auto& to) { comparison_of_results(to, comparison); }));
}

std::string result_comparison_schema() {
  return document_schema<Json>("compare", "plumbline compare A B --json", "Plans and results, and why one is slower.",
                               [](auto& to) { comparison_of_results(to, model::ResultComparison()); });
}

std::string result_comparison_csv(const model::ResultComparison& comparison) {
  Json rows = Json::array();
  const auto name = [&](std::size_t subject) { return comparison.subjects[subject].name; };
  const auto add = [&rows](Json row, const Json& figures) {
    row.update(figures);
    rows.push_back(std::move(row));
  };
  for (const model::ComparisonSubject& subject : comparison.subjects) {
    const Json of = written<Json>(subject);
    Json row = {{"table", "subjects"}};
    for (const char* key : {"name", "feasible", "reason", "step", "memory"}) row[key] = of[key];
    if (row["memory"].is_object()) row["memory"].erase("stages");
    if (subject.serving)
      for (const char* key : {"serving", "usd_per_gpu_hour"}) row[key] = of[key];
    if (of.contains("rollout")) row["rollout"] = of["rollout"];
    rows.push_back(std::move(row));
  }
  for (const model::ResultComparison::Difference& difference : comparison.differences) {
    const Json of = written<Json>(difference);
    for (const Json& row : of["rows"])
      add({{"table", "waterfalls"}, {"from", name(difference.from)}, {"to", name(difference.to)}}, row);
  }
  for (const model::ResultComparison::MeasuredPair& pair : comparison.measured) {
    const Json of = object_of<Json>([&](auto& to) { pair_fields(to, comparison.subjects, pair); });
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
