#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "model/result/comparison.h"
#include "reports/json/detail/answer_parts.h"
#include "reports/json/detail/shared_fields.h"
#include "reports/json/json.h"
#include "reports/text/compare/comparison.h"
#include "reports/text/table.h"

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

using calibrate::TraceComparison;
using model::ComparedTime;

void add_times(const char* table, const std::vector<ComparedTime>& rows, CsvTable& csv) {
  for (const ComparedTime& row : rows) csv.row(table, row.name, "", "", row.predicted_s, row.measured_s, row.error());
}

// Rows of a chunk have their kind and slot where there is one.
void compared_fields(auto& to, const ComparedTime& row, bool of_chunk) {
  to("name", "name of the row", row.name);
  if (of_chunk) {
    to.only_where(!row.kind.empty(), "kind", "what kind of thing it is", row.kind);
    to.only_where(row.slot >= 0, "slot", "number of the slot", row.slot);
  }
  to("predicted_s", "predicted seconds", row.predicted_s);
  to("measured_s", "measured seconds", row.measured_s);
  to("error", "predicted over measured, less one", row.error());
}

auto rows_of_trace(const std::vector<ComparedTime>& rows) {
  return List(rows, [](auto& to, const ComparedTime& row) { compared_fields(to, row, false); });
}
auto rows_of_chunk(const std::vector<ComparedTime>& rows) {
  return List(rows, [](auto& to, const ComparedTime& row) { compared_fields(to, row, true); });
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

}  // namespace

void fields(auto& to, const model::ResultComparison& comparison) {
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

std::string result_comparison_json(const model::ResultComparison& comparison) {
  return document("compare", written<Json>(comparison));
}

std::string result_comparison_schema() { return schema_of<Json, model::ResultComparison>(); }

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

void fields(auto& to, const calibrate::ComparedGemm& gemm) {
  to("name", "name of the GEMM", gemm.name);
  to("kind", "fprop, dgrad, wgrad or recompute", gemm.kind);
  to("m", "rows", gemm.extents[0]);
  to("n", "columns", gemm.extents[1]);
  to("k", "inner dimension", gemm.extents[2]);
  to("groups", "matrices of a grouped GEMM", gemm.extents[3]);
  to("count", "how many", gemm.count);
  to("predicted_s", "seconds of one", gemm.predicted_s);
  to("measured_s", "measured seconds", gemm.measured_s);
  to("kernels", "kernels of the trace that one ran as", gemm.kernels);
  to("flops", "floating-point operations of these kernels", gemm.flops);
}

namespace {

void trace_fields(auto& to, const TraceComparisonOutput& output) {
  const TraceComparison& c = output.comparison;
  to("profile", "profile with the constants", output.profile);
  to("trace", "file of the trace", output.trace_path);
  to("kernels", "kernels of the trace", output.measured.kernels.size());
  to("pipeline_rank", "rank of the pipeline", c.rank);
  to("pipeline_rank_source", "how the rank was found", c.rank_source);
  to("reached", "share of the predicted kernel time that the trace spans", c.reached);
  to("kernel_s", "seconds of all kernels of the trace", c.match.all_s);
  to("matched_s", "seconds of those that are kernels of the prediction", c.match.matched_s);
  to("reordered_s", "seconds of those that run in another order than the plan's", c.match.reordered_s);
  to("placed_s", "seconds of those that the kernels around them place", c.match.placed_s);
  to("notes", "what to know about it", c.notes);
  to("totals", "sums over the whole", rows_of_trace(c.totals));
  to("classes", "time by class of kernels", rows_of_trace(c.classes));
  to("exposed", "kinds of communication: seconds while no kernel computes", rows_of_trace(c.exposed));
  to("phases", "phases one by one", rows_of_trace(c.phases));
  to("layers", "time by layer", rows_of_trace(c.layers));
  to("gemms", "GEMMs by their dimensions", c.gemms);
  to("unmatched", "kernels that no predicted one matches",
     List(c.unmatched, [](auto& kernel_to, const calibrate::UnmatchedKernels& kernels) {
       kernel_to("name", "name of the unmatched", kernels.name);
       kernel_to("count", "how many", kernels.count);
       kernel_to("seconds", "seconds", kernels.seconds);
     }));
  to("worst", "the largest differences",
     List(c.worst, [](auto& worst_to, const calibrate::TraceDifference& difference) {
       worst_to("what", "what it is", difference.what);
       worst_to("predicted_s", "predicted seconds", difference.predicted_s);
       worst_to("measured_s", "measured seconds", difference.measured_s);
       worst_to("advice", "what to do about it", difference.advice);
     }));
}

constexpr const char* chunk_tables[] = {"totals", "spans", "periods", "barriers", "classes", "products"};

void chunk_fields(auto& to, const ChunkComparisonOutput& output) {
  const calibrate::ChunkComparison& comparison = output.comparison;
  const model::TimelineComparison& c = comparison.times;
  std::size_t slot = 0;
  to("profile", "profile with the constants", output.profile);
  to("chunk", "file of the measured chunk", output.chunk_path);
  to("kernels", "number of kernels", output.kernels);
  to("same_slots", "whether both have the same slots", c.same_slots);
  to("slots", "slots: passes of chunks", Object([&c](auto& part_to) {
       part_to("predicted", "slots of the prediction", c.predicted.slots);
       part_to("measured", "slots of the measurement", c.measured.slots);
     }));
  to("inputs", "what the prediction was given", Object([&comparison](auto& part_to) {
       part_to("rows", "whether measured rows of experts were given", comparison.rows_given);
       part_to("waits", "whether waits for peers were given", comparison.waits_given);
     }));
  to("totals", "sums over the whole", rows_of_chunk(c.totals));
  to("spans", "time by span", rows_of_chunk(c.phases));
  to("periods", "time from one slot to the next", rows_of_chunk(c.periods));
  to("barriers", "the same slots with and without a barrier between ranks",
     List(comparison.barriers, [&](auto& barrier_to, const sim::ChunkModel::Barriers& barriers) {
       const auto& measured = comparison.measured_barriers;
       barrier_to("slot", "number of the slot", slot);
       barrier_to("following_s", "seconds where slots follow one another", barriers.following);
       barrier_to("together_s", "seconds where slots run together", barriers.together);
       barrier_to("measured_s", "measured seconds", slot < measured.size() ? measured[slot] : 0.0);
       ++slot;
     }));
  to("classes", "time by class of kernels", rows_of_chunk(c.classes));
  to("products", "GEMMs with predicted and measured time", rows_of_chunk(c.gemms));
}

void trace_comparison_fields(auto& to, const TraceComparisonOutput& output) {
  to("comparison", "the comparison", Object([&output](auto& part_to) { trace_fields(part_to, output); }));
  to("plan", "", plan_part<Json>(output.plan));
}

void chunk_comparison_fields(auto& to, const ChunkComparisonOutput& output) {
  to("comparison", "the comparison", Object([&output](auto& part_to) { chunk_fields(part_to, output); }));
  to("plan", "", plan_part<Json>(output.plan));
}

}  // namespace

std::string trace_comparison_json(const TraceComparisonOutput& output) {
  return document("compare-trace", object_of<Json>([&](auto& to) { trace_comparison_fields(to, output); }));
}

std::string trace_comparison_csv(const TraceComparisonOutput& output) {
  const TraceComparison& c = output.comparison;
  CsvTable csv({"table", "name", "kind", "count", "predicted_s", "measured_s", "error"});
  add_times("total", c.totals, csv);
  add_times("class", c.classes, csv);
  add_times("exposed", c.exposed, csv);
  add_times("phase", c.phases, csv);
  add_times("layer", c.layers, csv);
  for (const calibrate::ComparedGemm& gemm : c.gemms)
    csv.row("gemm", gemm.shape(), gemm.kind, gemm.count, gemm.predicted_s, gemm.measured_s,
            gemm.predicted_s / gemm.measured_s - 1);
  return csv.text();
}

std::string chunk_comparison_json(const ChunkComparisonOutput& output) {
  return document("compare-chunk", object_of<Json>([&](auto& to) { chunk_comparison_fields(to, output); }));
}

std::string chunk_comparison_csv(const ChunkComparisonOutput& output) {
  const Json comparison = object_of<Json>([&](auto& to) { chunk_fields(to, output); });
  Json rows = Json::array();
  for (const char* table : chunk_tables)
    for (const Json& row : comparison[table]) rows.emplace_back(Json{{"table", table}}).update(row);
  return csv_of_rows(rows);
}

std::string trace_comparison_schema() {
  const TraceComparison comparison;
  const model::Timeline measured;
  const model::Plan plan;
  return keys_schema<Json>([&](auto& to) {
    trace_comparison_fields(to, TraceComparisonOutput{comparison, measured, plan, "", "", ""});
  });
}

std::string chunk_comparison_schema() {
  const calibrate::ChunkComparison comparison;
  const model::Plan plan;
  return keys_schema<Json>([&](auto& to) {
    chunk_comparison_fields(to, ChunkComparisonOutput{comparison, plan, "", "", ""});
  });
}

}  // namespace plumbline::reports
