#include <nlohmann/json.hpp>
#include <vector>

#include "reports/json/document.h"
#include "reports/json/json.h"
#include "reports/text/compare/trace_comparison.h"

namespace plumbline::reports {
namespace {

using model::ComparedTime;
using model::TimelineComparison;
using Json = nlohmann::ordered_json;

Json compared_rows(const std::vector<ComparedTime>& rows) {
  return list_of<Json>(rows, [](const ComparedTime& row) {
    Json entry = {{"name", row.name}};
    if (!row.kind.empty()) entry["kind"] = row.kind;
    if (row.slot >= 0) entry["slot"] = row.slot;
    return joined<Json>({entry, FIELDS(row, predicted_s, measured_s), {{"error", json_of<Json>(row.error())}}});
  });
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

}  // namespace

std::string chunk_comparison_json(const ChunkComparisonOutput& output) {
  const TimelineComparison& c = output.comparison.times;
  const Json comparison = {
      {"profile", output.profile},
      {"chunk", output.chunk_path},
      {"kernels", output.kernels},
      {"same_slots", c.same_slots},
      {"slots", {{"predicted", c.predicted.slots}, {"measured", c.measured.slots}}},
      {"inputs", {{"rows", output.comparison.rows_given}, {"waits", output.comparison.waits_given}}},
      {"totals", compared_rows(c.totals)},
      {"spans", compared_rows(c.phases)},
      {"periods", compared_rows(c.periods)},
      {"barriers", barrier_rows(output.comparison)},
      {"classes", compared_rows(c.classes)},
      {"products", compared_rows(c.gemms)}};
  return document<Json>("compare-chunk", {{"comparison", comparison}, {"plan", Json::parse(plan_json(output.plan))}});
}

std::string chunk_comparison_csv(const ChunkComparisonOutput& output) {
  const TimelineComparison& c = output.comparison.times;
  Json rows = Json::array();
  const auto add = [&rows](const char* table, const Json& list) {
    for (const Json& row : list) rows.emplace_back(Json{{"table", table}}).update(row);
  };
  add("totals", compared_rows(c.totals));
  add("spans", compared_rows(c.phases));
  add("periods", compared_rows(c.periods));
  add("barriers", barrier_rows(output.comparison));
  add("classes", compared_rows(c.classes));
  add("products", compared_rows(c.gemms));
  return csv_of_rows(rows);
}

}  // namespace plumbline::reports
