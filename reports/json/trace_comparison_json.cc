#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "reports/json/detail/document.h"
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

// Quotes a cell that holds a comma.
std::string csv_cell(const std::string& text) {
  return text.find(',') == std::string::npos ? text : fmt::format("\"{}\"", text);
}

void append_csv(std::string& out, std::string_view table, const std::vector<ComparedTime>& rows) {
  const auto cell = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; };
  for (const ComparedTime& row : rows)
    out += fmt::format("{},{},,,{},{},{}\n", table, csv_cell(row.name), cell(row.predicted_s), cell(row.measured_s),
                       cell(row.error()));
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
  std::string out = "table,name,kind,count,predicted_s,measured_s,error\n";
  append_csv(out, "total", c.totals);
  append_csv(out, "class", c.classes);
  append_csv(out, "exposed", c.exposed);
  append_csv(out, "phase", c.phases);
  append_csv(out, "layer", c.layers);
  for (const ComparedGemm& gemm : c.gemms)
    out += fmt::format("gemm,{},{},{},{},{},{}\n", gemm.shape(), gemm.kind, gemm.count, gemm.predicted_s,
                       gemm.measured_s, gemm.predicted_s / gemm.measured_s - 1);
  return out;
}

}  // namespace plumbline::reports
