#include <nlohmann/json.hpp>

#include "reports/json/detail/rows_csv.h"
#include "reports/json/document.h"
#include "reports/text/plan/schedule_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;
using model::ComparedSchedule;
using model::CostTable;

Json stage_json(const model::ScheduleCosts& costs) {
  return {{"F", costs.F}, {"B", costs.B}, {"I", costs.I}, {"W", costs.W}, {"FB", costs.FB}};
}

// Returns the uniform costs, or the list of stages with the factors; and p2p.
Json costs_json(const CostTable& costs) {
  Json json = Json::object();
  if (costs.stages.empty()) {
    json = stage_json(costs.uniform);
  } else {
    for (const model::ScheduleCosts& stage : costs.stages) json["stages"].push_back(stage_json(stage));
    if (!costs.micro_batch_factors.empty()) json["micro_batch_factors"] = costs.micro_batch_factors;
  }
  json["p2p"] = costs.uniform.p2p;
  return json;
}

Json row_json(const ComparedSchedule& row) {
  if (row.infeasible)
    return {{"kind", row.kind}, {"possible", false}, {"micro_batches", row.micro_batches}, {"reason", row.reason()}};
  return {{"kind", row.kind},
          {"possible", true},
          {"micro_batches", row.micro_batches},
          {"chunks_per_rank", row.chunks},
          {"makespan", row.makespan},
          {"average_bubble", row.average_bubble},
          {"worst_bubble", row.worst_bubble},
          {"peak_activations", row.peak_activations},
          {"parameter_copies", row.parameter_copies},
          {"exposed_hops", value_or_null<Json>(row.exposed_p2p)},
          {"lower_bound", row.lower_bound},
          {"makespan_over_lower_bound", row.lower_bound > 0 ? Json(row.makespan / row.lower_bound) : Json(nullptr)}};
}

}  // namespace

std::string schedule_json(const model::CostedSchedule& output) {
  const model::ScheduleEvaluation& evaluation = output.evaluation;
  const Json results = {{"makespan", evaluation.makespan},
                        {"exact_makespan", value_or_null<Json>(output.exact_makespan)},
                        {"lower_bound", output.lower_bound},
                        {"busy", evaluation.busy},
                        {"idle", evaluation.idle},
                        {"window", evaluation.window},
                        {"peak_activations", evaluation.peak_activations}};
  const model::ScheduleShape& shape = output.schedule.shape;
  Json json = {{"schedule",
                {{"kind", output.schedule.kind},
                 {"ranks", shape.ranks},
                 {"micro_batches", shape.micro_batches},
                 {"virtual_stages", shape.virtual_stages},
                 {"costs", costs_json(output.costs)}}}};
  json["schedule"].update(results);
  json.update(results);
  return document("schedule", json);
}

std::string schedule_page_data(const model::CostedSchedule& output) {
  Json ops = Json::array();
  for (std::size_t rank = 0; rank < output.schedule.ranks.size(); ++rank) {
    for (std::size_t slot = 0; slot < output.schedule.ranks[rank].size(); ++slot) {
      const model::ScheduleOp& op = output.schedule.ranks[rank][slot];
      const std::string forward = op.f_mb < 0 ? "" : std::to_string(op.f_mb);
      const std::string backward = op.b_mb < 0 ? "" : std::to_string(op.b_mb);
      ops.push_back({rank, model::to_string(op.type), output.evaluation.start[rank][slot], output.end[rank][slot],
                     forward + (forward.empty() || backward.empty() ? "" : "/") + backward});
    }
  }
  return Json{{"ops", ops}}.dump();
}

std::string comparison_csv(const std::vector<ComparedSchedule>& schedules) {
  Json rows = Json::array();
  for (const ComparedSchedule& row : schedules) rows.push_back(row_json(row));
  return csv_of_rows(rows);
}

std::string comparison_json(const std::vector<ComparedSchedule>& schedules, const model::ScheduleShape& shape,
                            const CostTable& costs) {
  Json rows = Json::array();
  for (const ComparedSchedule& row : schedules) rows.push_back(row_json(row));
  return document<Json>("schedule-all", {{"schedule",
                                          {{"kind", "all"},
                                           {"ranks", shape.ranks},
                                           {"micro_batches", shape.micro_batches},
                                           {"virtual_stages", shape.virtual_stages},
                                           {"costs", costs_json(costs)}}},
                                         {"schedules", rows}});
}

}  // namespace plumbline::reports
