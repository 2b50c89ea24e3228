#include <nlohmann/json.hpp>

#include "reports/json/detail/fields.h"
#include "reports/json/json.h"
#include "reports/text/plan/schedule_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

void cost_fields(auto& to, const model::ScheduleCosts& costs) {
  constexpr const char* meaning = "cost of an op";
  to("F", meaning, costs.F);
  to("B", meaning, costs.B);
  to("I", meaning, costs.I);
  to("W", meaning, costs.W);
  to("FB", meaning, costs.FB);
}

// Returns the uniform costs, or the list of stages with the factors; and p2p. The schema is that of their definition.
Stated<Json> costs_in_full(const model::CostTable& costs) {
  const auto uniform = [&costs](auto& to) {
    cost_fields(to, costs.uniform);
    to("p2p", "time of a message between ranks", costs.uniform.p2p);
  };
  const auto by_stage = [&costs](auto& to) {
    const auto& factors = costs.micro_batch_factors;
    to("stages", "durations by stage over the mean",
       List(costs.stages, [](auto& stage_to, const auto& stage) { cost_fields(stage_to, stage); }));
    to.only_where(!factors.empty(), "micro_batch_factors", "durations of micro-batches over the mean", factors);
    to("p2p", "time of a message between ranks", costs.uniform.p2p);
  };
  const Json written_costs = costs.stages.empty() ? object_of<Json>(uniform) : object_of<Json>(by_stage);
  return {written_costs, {{"anyOf", {Schema<Json>::of(Object(uniform)), Schema<Json>::of(Object(by_stage))}}}};
}

Stated<Json> costs_of(const model::CostTable& costs) {
  return {costs_in_full(costs).value, reference<Json>("schedule_costs")};
}

}  // namespace

void fields(auto& to, const model::LoadSpread& spread) {
  to("variation", "standard deviation over the mean", spread.variation);
  to("max_violation", "load of the fullest over the mean, less 1", spread.max_violation);
}

namespace {

void shape_fields(auto& to, const model::ScheduleShape& shape, const model::CostTable& costs) {
  to("ranks", "number of pipeline ranks", shape.ranks);
  to("micro_batches", "number of micro-batches", shape.micro_batches);
  to("virtual_stages", "stages of a rank", shape.virtual_stages);
  to("costs", "durations of passes in the unit of the question", costs_of(costs));
}

void evaluation_fields(auto& to, const model::CostedSchedule& output) {
  const model::ScheduleEvaluation& evaluation = output.evaluation;
  to("makespan", "in the unit of the costs", evaluation.makespan);
  to("exact_makespan", "by the schedule's closed form", output.exact_makespan);
  to("lower_bound", "proven lower bound of the makespan", output.lower_bound);
  to("busy", "of each rank", evaluation.busy);
  to("idle", "shares of time in which ranks wait, by rank", evaluation.idle);
  to("window", "from the first op of a rank to the end of its last", evaluation.window);
  to("peak_activations", "chunks held at once", evaluation.peak_activations);
}

// A row of a schedule that exists for the shape, or of one that does not.
Stated<Json> row_of(const model::ComparedSchedule& row) {
  const auto head = [&row](auto& to, bool possible) {
    to("kind", "what kind of thing it is", row.kind);
    to("possible", "whether it can be laid out", Stated<Json>{possible, {{"const", possible}}});
  };
  const auto infeasible = [&](auto& to) {
    head(to, false);
    to("reason", "why not, where it cannot be", row.infeasible ? row.reason() : "");
    to("micro_batches", "number of micro-batches", row.micro_batches);
  };
  const auto feasible = [&](auto& to) {
    head(to, true);
    to("chunks_per_rank", "model chunks of a rank", row.chunks);
    to("makespan", "time from the first pass to the end of the last", row.makespan);
    to("average_bubble", "mean over ranks of the idle share of the step", row.average_bubble);
    to("worst_bubble", "largest idle share of a rank", row.worst_bubble);
    to("peak_activations", "most chunks whose activations a rank holds", row.peak_activations);
    to("parameter_copies", "ranks that hold the parameters of one stage", row.parameter_copies);
    to("exposed_hops", "messages that a rank waits for", row.exposed_p2p);
    to("lower_bound", "proven lower bound of the makespan", row.lower_bound);
    to("makespan_over_lower_bound", "makespan over its lower bound",
       where(row.lower_bound > 0, row.makespan / row.lower_bound));
    to("micro_batches", "number of micro-batches", row.micro_batches);
  };
  return {row.infeasible ? object_of<Json>(infeasible) : object_of<Json>(feasible),
          {{"anyOf", {Schema<Json>::of(Object(infeasible)), Schema<Json>::of(Object(feasible))}}}};
}

Stated<Json> rows_of(const std::vector<model::ComparedSchedule>& schedules) {
  return {list_of<Json>(schedules, [](const auto& row) { return row_of(row).value; }),
          {{"type", "array"}, {"items", row_of(model::ComparedSchedule()).schema}}};
}

void comparison_fields(auto& to, const std::vector<model::ComparedSchedule>& schedules,
                       const model::ScheduleShape& shape, const model::CostTable& costs) {
  to("schedule", "a schedule with its idle time", Object([&](auto& part_to) {
       part_to("kind", "what kind of thing it is", Stated<Json>{"all", {{"const", "all"}}});
       shape_fields(part_to, shape, costs);
     }));
  to("schedules", "schedules one by one", rows_of(schedules));
}

}  // namespace

void fields(auto& to, const model::RoutingStatistics& routing) {
  to("routing", "what the experts of the plan receive", Object([&routing](auto& part_to) {
       part_to("experts", "experts of a layer", routing.experts);
       part_to("ranks", "how even the ranks of experts are", routing.ranks);
       part_to("dropped", "share of rows above the capacity of an expert", routing.dropped);
       part_to("balance", "how even the experts are, step by step",
               List(routing.balance, [](auto& step_to, const model::RoutingStatistics::Step& step) {
                 fields(step_to, step.experts);
                 step_to("step", "number of the step", step.step);
               }));
       part_to("loads", "share of the rows of each expert, by layer",
               List(routing.loads, [](auto& load_to, const model::LayerRows& layer) {
                 load_to("layer", "number of the layer", layer.layer);
                 load_to("shares", "load of each expert", layer.rows);
               }));
     }));
}

void fields(auto& to, const model::CostedSchedule& output) {
  to("schedule", "a schedule with its idle time", Object([&output](auto& part_to) {
       part_to("kind", "what kind of thing it is", output.schedule.kind);
       shape_fields(part_to, output.schedule.shape, output.costs);
       evaluation_fields(part_to, output);
     }));
  evaluation_fields(to, output);
}

std::string schedule_json(const model::CostedSchedule& output) { return document("schedule", written<Json>(output)); }

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
  return csv_of_rows(rows_of(schedules).value);
}

std::string comparison_json(const std::vector<model::ComparedSchedule>& schedules, const model::ScheduleShape& shape,
                            const model::CostTable& costs) {
  return document("schedule-all", object_of<Json>([&](auto& to) { comparison_fields(to, schedules, shape, costs); }));
}

std::string routing_json(const model::RoutingStatistics& routing) {
  return document("show-routing", written<Json>(routing));
}

std::string routing_csv(const model::RoutingStatistics& routing) {
  Json rows = Json::array();
  const auto add = [&rows](const char* of, const Json& step, const model::LoadSpread& spread) {
    rows.push_back({{"of", of}, {"step", step}});
    rows.back().update(written<Json>(spread));
  };
  add("experts", nullptr, routing.experts);
  add("ranks", nullptr, routing.ranks);
  for (const model::RoutingStatistics::Step& step : routing.balance) add("balance", step.step, step.experts);
  return csv_of_rows(rows);
}

std::string schedule_definitions() {
  return text_of_json(Json{{"schedule_costs", costs_in_full(model::CostTable()).schema}});
}

std::string schedule_schema() { return schema_of<Json, model::CostedSchedule>(); }

std::string schedule_comparison_schema() {
  return keys_schema<Json>([](auto& to) { comparison_fields(to, {}, model::ScheduleShape(), model::CostTable()); });
}

std::string routing_schema() { return schema_of<Json, model::RoutingStatistics>(); }

}  // namespace plumbline::reports
