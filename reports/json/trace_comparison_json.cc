#include <nlohmann/json.hpp>
#include <vector>

#include "reports/csv/csv_table.h"
#include "reports/json/detail/schemas.h"
#include "reports/json/detail/shared_fields.h"
#include "reports/text/compare/trace_comparison.h"

namespace plumbline::reports {
namespace {

using calibrate::TraceComparison;
using model::ComparedTime;
using Json = nlohmann::ordered_json;

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
  return document_schema<Json>(
      "compare-trace", "plumbline compare PLAN TRACE --json",
      "A trace of one GPU and the predicted step of its pipeline rank.", [&](auto& to) {
        trace_comparison_fields(to, TraceComparisonOutput{comparison, measured, plan, "", "", ""});
      });
}

std::string chunk_comparison_schema() {
  const calibrate::ChunkComparison comparison;
  const model::Plan plan;
  return document_schema<Json>("compare-chunk", "plumbline compare PLAN CHUNK --json",
                               "A profiled chunk and its prediction.", [&](auto& to) {
                                 chunk_comparison_fields(to, ChunkComparisonOutput{comparison, plan, "", "", ""});
                               });
}

}  // namespace plumbline::reports
