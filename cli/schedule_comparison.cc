#include "cli/schedule_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "cli/schedule.h"
#include "model/base/version.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using model::Error;
using model::ErrorKind;
using model::Result;
using model::ScheduleCosts;
using model::ScheduleKind;
using model::ScheduleShape;
using Json = nlohmann::ordered_json;

// Names of schedules do not wrap, even where numbers of many digits leave little room.
constexpr std::size_t comparison_width = 110;

// A pipeline of one stage per rank is what the costs describe.
Result<void> check_costs(const ScheduleShape& shape, const CostInput& costs) {
  const auto ranks = static_cast<std::size_t>(std::max(shape.ranks, 0));
  if (costs.stages.empty() || costs.stages.size() == ranks) return {};
  return tl::unexpected(
      Error{ErrorKind::input,
            fmt::format("lists {} stages, the comparison needs one for each of {} ranks", costs.stages.size(), ranks),
            costs.file, 0, "stage", "schedules with more stages cut each into equal chunks"});
}

// Whether the schedule lets one choose groups of micro-batches: one group of all of them is then always possible.
bool takes_groups(const ScheduleKind& kind, ScheduleShape shape) {
  shape.micro_batch_group = shape.micro_batches;
  return kind.check(shape).has_value();
}

// The shape that the schedule takes: the wanted chunks and groups where it lets one choose, else its own.
Result<ScheduleShape> shape_for(const ScheduleKind& kind, ScheduleShape shape) {
  for (;;) {
    const auto checked = kind.check(shape);
    if (checked) return shape;
    const std::string& key = checked.error().key;
    if (key == "virtual_stages" && shape.virtual_stages > 1) {
      shape.virtual_stages = 1;
    } else if (key == "micro_batch_group" && shape.micro_batch_group != 0 && !takes_groups(kind, shape)) {
      shape.micro_batch_group = 0;
    } else {
      return tl::make_unexpected(checked.error());
    }
  }
}

ScheduleCosts scaled(ScheduleCosts costs, double factor) {
  for (double* cost : {&costs.F, &costs.B, &costs.I, &costs.W, &costs.FB}) *cost *= factor;
  return costs;
}

// What p2p adds to the makespan, in hops.
Result<double> exposed_hops(const ScheduleKind& kind, const ScheduleOutput& output) {
  CostInput free_hops = output.costs;
  free_hops.uniform.p2p = 0;
  const auto without = evaluate_schedule(kind, output.schedule.shape, free_hops);
  if (!without) return tl::make_unexpected(without.error());
  return (output.evaluation.makespan - without->evaluation.makespan) / output.costs.uniform.p2p;
}

Result<ComparedSchedule> compare(const ScheduleKind& kind, const ScheduleShape& wanted, const CostInput& costs) {
  ComparedSchedule row;
  row.kind = kind.name();
  const auto shape = shape_for(kind, wanted);
  if (!shape) {
    row.impossible = shape.error();
    return row;
  }
  const std::int32_t stages = kind.build(*shape).stages;
  const auto output = evaluate_schedule(kind, *shape, cut_costs(costs, shape->ranks, stages));
  if (!output) return tl::make_unexpected(output.error());
  const model::ScheduleEvaluation& evaluation = output->evaluation;
  const double total = std::accumulate(evaluation.idle.begin(), evaluation.idle.end(), 0.0);
  row.chunks = stages / shape->ranks * output->schedule.directions;
  row.makespan = evaluation.makespan;
  if (row.makespan > 0) {
    row.average_bubble = total / shape->ranks / row.makespan;
    row.worst_bubble = *std::max_element(evaluation.idle.begin(), evaluation.idle.end()) / row.makespan;
  }
  row.peak_activations = *std::max_element(evaluation.peak_activations.begin(), evaluation.peak_activations.end()) *
                         (static_cast<double>(shape->ranks) / stages);
  row.parameter_copies = output->schedule.parameter_copies;
  row.lower_bound = output->lower_bound;
  if (costs.uniform.p2p > 0) {
    const auto hops = exposed_hops(kind, *output);
    if (!hops) return tl::make_unexpected(hops.error());
    row.exposed_hops = *hops;
  }
  return row;
}

std::string why(const Error& error) {
  return error.hint.empty() ? error.message : fmt::format("{} ({})", error.message, error.hint);
}

std::string percent(double share) { return fmt::format("{:.1f}", share * 100); }

// A sum of the same costs in another order may come out below the bound by a rounding error.
double over_bound(const ComparedSchedule& row) { return std::max(0.0, row.makespan / row.lower_bound - 1); }

Json row_json(const ComparedSchedule& row) {
  Json json;
  json["kind"] = row.kind;
  json["possible"] = !row.impossible;
  if (row.impossible) {
    json["reason"] = why(*row.impossible);
    return json;
  }
  json["chunks_per_rank"] = row.chunks;
  json["makespan"] = row.makespan;
  json["average_bubble"] = row.average_bubble;
  json["worst_bubble"] = row.worst_bubble;
  json["peak_activations"] = row.peak_activations;
  json["parameter_copies"] = row.parameter_copies;
  json["exposed_hops"] = row.exposed_hops ? Json(*row.exposed_hops) : Json(nullptr);
  json["lower_bound"] = row.lower_bound;
  json["makespan_over_lower_bound"] = row.lower_bound > 0 ? Json(row.makespan / row.lower_bound) : Json(nullptr);
  return json;
}

std::string heading(const ScheduleShape& shape, const CostInput& costs) {
  std::string text = fmt::format(
      "{} ranks, {} micro-batches, the same work in every schedule; interleaved: {} chunks per rank\n"
      "a full stage costs ",
      shape.ranks, shape.micro_batches, shape.virtual_stages);
  if (!costs.stages.empty()) {
    return text + fmt::format("what {} lists, a hop {:.6g}\n\n", costs.file, costs.uniform.p2p);
  }
  const ScheduleCosts& c = costs.uniform;
  return text + fmt::format("F={:.6g} B={:.6g} I={:.6g} W={:.6g} FB={:.6g}, a hop {:.6g}\n\n", c.F, c.B, c.I, c.W, c.FB,
                            c.p2p);
}

// One line, or several that line up, for each schedule that does not exist for the shape.
std::string impossible_lines(const std::vector<ComparedSchedule>& schedules) {
  constexpr std::size_t name_width = 19, margin = 2 + name_width + 2;
  std::string text;
  for (const ComparedSchedule& row : schedules) {
    if (!row.impossible) continue;
    std::string name = row.kind;
    for (const std::string& line : reports::wrap(why(*row.impossible), reports::terminal_width - margin)) {
      text += fmt::format("  {:<{}}  {}\n", name, name_width, line);
      name.clear();
    }
  }
  return text.empty() ? text : "\nnot possible here:\n" + text;
}

}  // namespace

CostInput cut_costs(const CostInput& costs, std::int32_t ranks, std::int32_t stages) {
  const double part = static_cast<double>(ranks) / stages;
  CostInput cut = costs;
  cut.uniform = scaled(costs.uniform, part);
  cut.stages.clear();
  if (costs.stages.empty()) return cut;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    cut.stages.push_back(scaled(costs.stages[static_cast<std::size_t>(stage / (stages / ranks))], part));
  }
  return cut;
}

Result<std::vector<ComparedSchedule>> compare_schedules(const ScheduleShape& shape, const CostInput& costs) {
  if (const auto fits = check_costs(shape, costs); !fits) return tl::make_unexpected(fits.error());
  std::vector<ComparedSchedule> rows;
  for (const ScheduleKind* kind : model::schedule_kinds()) {
    auto row = compare(*kind, shape, costs);
    if (!row) return tl::make_unexpected(row.error());
    rows.push_back(std::move(*row));
  }
  return rows;
}

std::string comparison_table(const std::vector<ComparedSchedule>& schedules, const ScheduleShape& shape,
                             const CostInput& costs) {
  std::vector<reports::Column> columns = {{"schedule"}};
  for (const char* title : {"makespan", "bubble", "worst", "peak", "copies", "hops", "bound", "over"}) {
    columns.push_back({title, reports::Align::right});
  }
  reports::Table table(columns, 2, comparison_width);
  const auto number = [](double value) { return fmt::format("{:.5g}", value); };
  const auto short_number = [](double value) { return fmt::format("{:.4g}", value); };
  bool any = false;
  for (const ComparedSchedule& row : schedules) {
    if (row.impossible) continue;
    any = true;
    table.add({row.kind, number(row.makespan), percent(row.average_bubble), percent(row.worst_bubble),
               short_number(row.peak_activations), fmt::format("{}", row.parameter_copies),
               row.exposed_hops ? short_number(*row.exposed_hops) : "-", number(row.lower_bound),
               row.lower_bound > 0 ? percent(over_bound(row)) : "-"});
  }
  const std::string impossible = impossible_lines(schedules);
  if (!any) return heading(shape, costs) + impossible.substr(1);
  return heading(shape, costs) + table.to_string() + impossible + R"(
bubble, worst  idle of the average and of the worst rank, % of the makespan
peak           activations of the fullest rank, in micro-batches of a full stage
copies         of the parameters in the pipeline
hops           what point-to-point adds to the makespan, in hops; needs p2p above 0
bound, over    no order of these ops on these ranks is shorter; the makespan above it, in %
)";
}

std::string comparison_json(const std::vector<ComparedSchedule>& schedules, const ScheduleShape& shape,
                            const CostInput& costs) {
  Json json;
  json["plumbline"] = {{"version", model::version}, {"schema", model::schema}};
  json["schedule"] = {{"kind", "all"},
                      {"ranks", shape.ranks},
                      {"micro_batches", shape.micro_batches},
                      {"virtual_stages", shape.virtual_stages},
                      {"costs", Json::parse(costs_json(costs))}};
  json["schedules"] = Json::array();
  for (const ComparedSchedule& row : schedules) json["schedules"].push_back(row_json(row));
  return json.dump(2) + "\n";
}

}  // namespace plumbline::cli
