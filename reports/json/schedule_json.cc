#include <nlohmann/json.hpp>

#include "reports/json/document.h"
#include "reports/json/json.h"
#include "reports/text/plan/schedule_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

Json stage_json(const model::ScheduleCosts& costs) { return FIELDS(costs, F, B, I, W, FB); }

// Returns the uniform costs, or the list of stages with the factors; and p2p.
Json costs_json(const model::CostTable& costs) {
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

Json row_json(const model::ComparedSchedule& row) {
  if (row.infeasible)
    return {{"kind", row.kind}, {"possible", false}, {"reason", row.reason()}, {"micro_batches", row.micro_batches}};
  return joined<Json>(
      {{{"kind", row.kind}, {"possible", true}, {"chunks_per_rank", row.chunks}},
       FIELDS(row, makespan, average_bubble, worst_bubble, peak_activations, parameter_copies),
       {{"exposed_hops", json_of<Json>(row.exposed_p2p)},
        {"lower_bound", row.lower_bound},
        {"makespan_over_lower_bound", row.lower_bound > 0 ? Json(row.makespan / row.lower_bound) : Json(nullptr)},
        {"micro_batches", row.micro_batches}}});
}

Json spread_json(const model::LoadSpread& spread) { return FIELDS(spread, variation, max_violation); }

}  // namespace

std::string schedule_json(const model::CostedSchedule& output) {
  const model::ScheduleEvaluation& evaluation = output.evaluation;
  const Json results = joined<Json>({{{"makespan", evaluation.makespan},
                                      {"exact_makespan", json_of<Json>(output.exact_makespan)},
                                      {"lower_bound", output.lower_bound}},
                                     FIELDS(evaluation, busy, idle, window, peak_activations)});
  const model::ScheduleShape& shape = output.schedule.shape;
  Json json = {{"schedule", joined<Json>({{{"kind", output.schedule.kind}},
                                          FIELDS(shape, ranks, micro_batches, virtual_stages),
                                          {{"costs", costs_json(output.costs)}}})}};
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

std::string comparison_csv(const std::vector<model::ComparedSchedule>& schedules) {
  return csv_of_rows(list_of<Json>(schedules, row_json));
}

std::string comparison_json(const std::vector<model::ComparedSchedule>& schedules, const model::ScheduleShape& shape,
                            const model::CostTable& costs) {
  return document<Json>("schedule-all", {{"schedule", joined<Json>({{{"kind", "all"}},
                                                                    FIELDS(shape, ranks, micro_batches, virtual_stages),
                                                                    {{"costs", costs_json(costs)}}})},
                                         {"schedules", list_of<Json>(schedules, row_json)}});
}

std::string routing_json(const model::RoutingStatistics& routing) {
  Json steps = Json::array();
  for (const model::RoutingStatistics::Step& step : routing.balance) {
    steps.push_back(spread_json(step.experts));
    steps.back()["step"] = step.step;
  }
  return document<Json>("show-routing", {{"routing",
                                          {{"experts", spread_json(routing.experts)},
                                           {"ranks", spread_json(routing.ranks)},
                                           {"dropped", routing.dropped},
                                           {"balance", steps},
                                           {"loads", list_of<Json>(routing.loads, [&](const model::LayerRows& layer) {
                                              return Json{{"layer", layer.layer}, {"shares", layer.rows}};
                                            })}}}});
}

std::string routing_csv(const model::RoutingStatistics& routing) {
  Json rows = Json::array();
  const auto add = [&rows](const char* of, const Json& step, const model::LoadSpread& spread) {
    rows.push_back({{"of", of}, {"step", step}});
    rows.back().update(spread_json(spread));
  };
  add("experts", nullptr, routing.experts);
  add("ranks", nullptr, routing.ranks);
  for (const model::RoutingStatistics::Step& step : routing.balance) add("balance", step.step, step.experts);
  return csv_of_rows(rows);
}

}  // namespace plumbline::reports
