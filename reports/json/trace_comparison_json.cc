#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "reports/csv/csv_table.h"
#include "reports/json/document.h"
#include "reports/json/json.h"
#include "reports/text/compare/trace_comparison.h"

namespace plumbline::reports {
namespace {

using calibrate::ComparedGemm;
using calibrate::TraceComparison;
using model::ComparedTime;
using TraceJson = nlohmann::ordered_json;

TraceJson rows_of_trace(const std::vector<ComparedTime>& rows) {
  TraceJson list = TraceJson::array();
  for (const ComparedTime& row : rows)
    list.push_back({{"name", row.name},
                    {"predicted_s", value_or_null<TraceJson>(row.predicted_s)},
                    {"measured_s", value_or_null<TraceJson>(row.measured_s)},
                    {"error", value_or_null<TraceJson>(row.error())}});
  return list;
}

TraceJson gemms_of_trace(const std::vector<ComparedGemm>& gemms) {
  TraceJson list = TraceJson::array();
  for (const ComparedGemm& gemm : gemms)
    list.push_back({{"name", gemm.name},
                    {"kind", gemm.kind},
                    {"m", gemm.extents[0]},
                    {"n", gemm.extents[1]},
                    {"k", gemm.extents[2]},
                    {"groups", gemm.extents[3]},
                    {"count", gemm.count},
                    {"predicted_s", gemm.predicted_s},
                    {"measured_s", gemm.measured_s},
                    {"kernels", gemm.kernels},
                    {"flops", gemm.flops}});
  return list;
}

TraceJson unmatched_of_trace(const TraceComparison& c) {
  TraceJson list = TraceJson::array();
  for (const calibrate::UnmatchedKernels& kernels : c.unmatched)
    list.push_back({{"name", kernels.name}, {"count", kernels.count}, {"seconds", kernels.seconds}});
  return list;
}

TraceJson worst_of_trace(const TraceComparison& c) {
  TraceJson list = TraceJson::array();
  for (const calibrate::TraceDifference& difference : c.worst)
    list.push_back({{"what", difference.what},
                    {"predicted_s", difference.predicted_s},
                    {"measured_s", difference.measured_s},
                    {"advice", difference.advice}});
  return list;
}

void add_times(const char* table, const std::vector<ComparedTime>& rows, CsvTable& csv) {
  for (const ComparedTime& row : rows) csv.row(table, row.name, "", "", row.predicted_s, row.measured_s, row.error());
}

}  // namespace

std::string trace_comparison_json(const TraceComparisonOutput& output) {
  const TraceComparison& c = output.comparison;
  const TraceJson comparison = {{"profile", output.profile},
                                {"trace", output.trace_path},
                                {"kernels", output.measured.kernels.size()},
                                {"pipeline_rank", c.rank},
                                {"pipeline_rank_source", c.rank_source},
                                {"reached", c.reached},
                                {"kernel_s", c.match.all_s},
                                {"matched_s", c.match.matched_s},
                                {"reordered_s", c.match.reordered_s},
                                {"placed_s", c.match.placed_s},
                                {"notes", c.notes},
                                {"totals", rows_of_trace(c.totals)},
                                {"classes", rows_of_trace(c.classes)},
                                {"exposed", rows_of_trace(c.exposed)},
                                {"phases", rows_of_trace(c.phases)},
                                {"layers", rows_of_trace(c.layers)},
                                {"gemms", gemms_of_trace(c.gemms)},
                                {"unmatched", unmatched_of_trace(c)},
                                {"worst", worst_of_trace(c)}};
  return document<TraceJson>("compare-trace",
                             {{"comparison", comparison}, {"plan", TraceJson::parse(plan_json(output.plan))}});
}

std::string trace_comparison_csv(const TraceComparisonOutput& output) {
  const TraceComparison& c = output.comparison;
  CsvTable csv({"table", "name", "kind", "count", "predicted_s", "measured_s", "error"});
  add_times("total", c.totals, csv);
  add_times("class", c.classes, csv);
  add_times("exposed", c.exposed, csv);
  add_times("phase", c.phases, csv);
  add_times("layer", c.layers, csv);
  for (const ComparedGemm& gemm : c.gemms)
    csv.row("gemm", gemm.shape(), gemm.kind, gemm.count, gemm.predicted_s, gemm.measured_s,
            gemm.predicted_s / gemm.measured_s - 1);
  return csv.text();
}

}  // namespace plumbline::reports
