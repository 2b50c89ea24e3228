#include <nlohmann/json.hpp>
#include <vector>

#include "reports/csv/csv_table.h"
#include "reports/json/document.h"
#include "reports/json/json.h"
#include "reports/text/compare/trace_comparison.h"

namespace plumbline::reports {
namespace {

using calibrate::TraceComparison;
using model::ComparedTime;
using Json = nlohmann::ordered_json;

// Rows of a chunk have their kind and slot where there is one.
Json compared_rows(const std::vector<ComparedTime>& rows, bool of_chunk) {
  return list_of<Json>(rows, [&](const ComparedTime& row) {
    Json entry = {{"name", row.name}};
    if (of_chunk && !row.kind.empty()) entry["kind"] = row.kind;
    if (of_chunk && row.slot >= 0) entry["slot"] = row.slot;
    return joined<Json>({entry, FIELDS(row, predicted_s, measured_s), {{"error", json_of<Json>(row.error())}}});
  });
}

Json gemms_of_trace(const std::vector<calibrate::ComparedGemm>& gemms) {
  return list_of<Json>(gemms, [&](const calibrate::ComparedGemm& gemm) {
    return joined<Json>({{{"name", gemm.name},
                          {"kind", gemm.kind},
                          {"m", gemm.extents[0]},
                          {"n", gemm.extents[1]},
                          {"k", gemm.extents[2]},
                          {"groups", gemm.extents[3]}},
                         FIELDS(gemm, count, predicted_s, measured_s, kernels, flops)});
  });
}

Json unmatched_of_trace(const TraceComparison& c) { return LISTED(c.unmatched, name, count, seconds); }

Json worst_of_trace(const TraceComparison& c) { return LISTED(c.worst, what, predicted_s, measured_s, advice); }

void add_times(const char* table, const std::vector<ComparedTime>& rows, CsvTable& csv) {
  for (const ComparedTime& row : rows) csv.row(table, row.name, "", "", row.predicted_s, row.measured_s, row.error());
}

Json barrier_rows(const calibrate::ChunkComparison& comparison) {
  Json list = Json::array();
  for (std::size_t i = 0; i < comparison.barriers.size(); ++i)
    list.push_back({{"slot", i},
                    {"following_s", comparison.barriers[i].following},
                    {"together_s", comparison.barriers[i].together},
                    {"measured_s", comparison.measured_barriers[i]}});
  return list;
}

constexpr const char* chunk_tables[] = {"totals", "spans", "periods", "barriers", "classes", "products"};

Json comparison_of(const ChunkComparisonOutput& output) {
  const model::TimelineComparison& c = output.comparison.times;
  Json json = {{"profile", output.profile},
               {"chunk", output.chunk_path},
               {"kernels", output.kernels},
               {"same_slots", c.same_slots},
               {"slots", {{"predicted", c.predicted.slots}, {"measured", c.measured.slots}}},
               {"inputs", {{"rows", output.comparison.rows_given}, {"waits", output.comparison.waits_given}}}};
  for (const char* table : chunk_tables) json[table] = nullptr;
  json["barriers"] = barrier_rows(output.comparison);
  for (const auto& [table, rows] : {std::pair("totals", &c.totals),
                                    {"spans", &c.phases},
                                    {"periods", &c.periods},
                                    {"classes", &c.classes},
                                    {"products", &c.gemms}})
    json[table] = compared_rows(*rows, true);
  return json;
}

}  // namespace

std::string trace_comparison_json(const TraceComparisonOutput& output) {
  const TraceComparison& c = output.comparison;
  const Json comparison = joined<Json>({{{"profile", output.profile},
                                         {"trace", output.trace_path},
                                         {"kernels", output.measured.kernels.size()},
                                         {"pipeline_rank", c.rank},
                                         {"pipeline_rank_source", c.rank_source},
                                         {"reached", c.reached},
                                         {"kernel_s", c.match.all_s}},
                                        FIELDS(c.match, matched_s, reordered_s, placed_s),
                                        {{"notes", c.notes},
                                         {"totals", compared_rows(c.totals, false)},
                                         {"classes", compared_rows(c.classes, false)},
                                         {"exposed", compared_rows(c.exposed, false)},
                                         {"phases", compared_rows(c.phases, false)},
                                         {"layers", compared_rows(c.layers, false)},
                                         {"gemms", gemms_of_trace(c.gemms)},
                                         {"unmatched", unmatched_of_trace(c)},
                                         {"worst", worst_of_trace(c)}}});
  return document<Json>("compare-trace", {{"comparison", comparison}, {"plan", Json::parse(plan_json(output.plan))}});
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
  return document<Json>("compare-chunk",
                        {{"comparison", comparison_of(output)}, {"plan", Json::parse(plan_json(output.plan))}});
}

std::string chunk_comparison_csv(const ChunkComparisonOutput& output) {
  const Json comparison = comparison_of(output);
  Json rows = Json::array();
  for (const char* table : chunk_tables)
    for (const Json& row : comparison[table]) rows.emplace_back(Json{{"table", table}}).update(row);
  return csv_of_rows(rows);
}

}  // namespace plumbline::reports
