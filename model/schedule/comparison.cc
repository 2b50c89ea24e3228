#include "model/schedule/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

namespace plumbline::model {
namespace {

// The stages of a cost file. Forward and backward of a pair may be of different stages; F and B are each scaled by
// FB / (F + B) of their own stage.
class ListedCosts final : public ChunkCosts {
 public:
  ListedCosts(const CostTable& costs, std::vector<std::vector<double>> factors)
      : ChunkCosts(costs.uniform.p2p),
        alone_(stages_of(costs, false), costs.uniform.p2p, 1, factors),
        paired_(stages_of(costs, true), costs.uniform.p2p, 1, std::move(factors)) {}
  double of(const ScheduleOp& op) const override { return (op.type == OpType::FB ? paired_ : alone_).of(op); }

 private:
  static std::vector<StageCost> stages_of(const CostTable& costs, bool paired) {
    std::vector<StageCost> stages;
    for (const ScheduleCosts& c : costs.stages) {
      const double sum = c.F + c.B;
      const double part = paired && sum > 0 ? c.FB / sum : 1;
      stages.push_back({part * c.F, part * c.B, c.I, c.W});
    }
    return stages;
  }

  StageCosts alone_, paired_;
};

Result<void> check_costs(const Schedule& schedule, const CostTable& costs) {
  const auto wrong = [&](std::string key, std::string message) {
    return wrong_input_at(costs.file, 0, std::move(key), std::move(message));
  };
  const auto stages = static_cast<std::size_t>(schedule.stages);
  const auto micro_batches = static_cast<std::size_t>(schedule.shape.micro_batches);
  if (!costs.stages.empty() && costs.stages.size() != stages)
    return wrong("stage", fmt::format("lists {} stages, but {} of this shape has {}", costs.stages.size(),
                                      schedule.kind, stages));
  if (!costs.micro_batch_factors.empty() && costs.micro_batch_factors.size() != micro_batches)
    return wrong("micro_batch_factors", fmt::format("lists {} micro-batches, but there are {}",
                                                    costs.micro_batch_factors.size(), micro_batches));
  return {};
}

// Returns the factors by direction; with two directions the first half of the list belongs to direction 0.
std::vector<std::vector<double>> factors_by_direction(const Schedule& schedule, const CostTable& costs) {
  if (costs.micro_batch_factors.empty()) return {};
  const auto& list = costs.micro_batch_factors;
  const auto directions = static_cast<std::size_t>(schedule.directions);
  const std::size_t each = (list.size() + directions - 1) / directions;
  std::vector<std::vector<double>> factors(directions);
  for (std::size_t i = 0; i < list.size(); ++i) factors[i / each].push_back(list[i]);
  return factors;
}

std::unique_ptr<ChunkCosts> chunk_costs(const Schedule& schedule, const CostTable& costs) {
  if (costs.stages.empty()) return std::make_unique<UniformCosts>(costs.uniform);
  return std::make_unique<ListedCosts>(costs, factors_by_direction(schedule, costs));
}

}  // namespace

Result<CostedSchedule> evaluate_schedule(const ScheduleKind& kind, const ScheduleShape& shape, const CostTable& costs) {
  TRY(kind.check(shape));
  CostedSchedule output;
  output.schedule = kind.build(shape);
  TRY(check_costs(output.schedule, costs));
  output.costs = costs;
  const auto chunks = chunk_costs(output.schedule, costs);
  auto evaluation = TRY(evaluate(output.schedule, *chunks));
  output.evaluation = std::move(evaluation);
  for (std::size_t rank = 0; rank < output.schedule.ranks.size(); ++rank) {
    auto& ends = output.end.emplace_back(output.evaluation.start[rank]);
    for (std::size_t i = 0; i < ends.size(); ++i) ends[i] += chunks->of(output.schedule.ranks[rank][i]);
  }
  if (costs.stages.empty()) output.exact_makespan = kind.exact_makespan(shape, costs.uniform);
  output.lower_bound = lower_bound(output.schedule, *chunks);
  return output;
}

namespace {

// Checks that the costs describe a pipeline of one stage per rank.
Result<void> check_costs(const ScheduleShape& shape, const CostTable& costs) {
  const auto ranks = static_cast<std::size_t>(std::max(shape.ranks, 0));
  if (costs.stages.empty() || costs.stages.size() == ranks) return {};
  return wrong_input_at(
      costs.file, 0, "stage",
      fmt::format("lists {} stages, the comparison needs one for each of {} ranks", costs.stages.size(), ranks),
      "schedules with more stages cut each into equal chunks");
}

// Returns whether the schedule has micro-batch groups; one group of all micro-batches is then always possible.
bool takes_groups(const ScheduleKind& kind, ScheduleShape shape) {
  shape.micro_batch_group = shape.micro_batches;
  return kind.check(shape).has_value();
}

// Returns the shape for the schedule: the wanted chunks and groups where they can be chosen, else its own.
Result<ScheduleShape> shape_for(const ScheduleKind& kind, ScheduleShape shape) {
  for (;;) {
    const auto checked = kind.check(shape);
    if (checked) return shape;
    const std::string& key = checked.error().key;
    if (key == "virtual_stages" && shape.virtual_stages > 1)
      shape.virtual_stages = 1;
    else if (key == "micro_batch_group" && shape.micro_batch_group != 0 && !takes_groups(kind, shape))
      shape.micro_batch_group = 0;
    else
      return tl::make_unexpected(checked.error());
  }
}

ScheduleCosts scaled(ScheduleCosts costs, double factor) {
  for (double* cost : {&costs.F, &costs.B, &costs.I, &costs.W, &costs.FB}) *cost *= factor;
  return costs;
}

// Returns what p2p adds to the makespan, as a number of transfers.
Result<double> exposed_p2p(const ScheduleKind& kind, const CostedSchedule& output) {
  CostTable free_transfers = output.costs;
  free_transfers.uniform.p2p = 0;
  const auto without = TRY(evaluate_schedule(kind, output.schedule.shape, free_transfers));
  return (output.evaluation.makespan - without.evaluation.makespan) / output.costs.uniform.p2p;
}

Result<ComparedSchedule> compare(const ScheduleKind& kind, const ScheduleShape& wanted, const CostTable& costs) {
  ComparedSchedule row;
  row.kind = kind.name();
  row.micro_batches = wanted.micro_batches;
  const auto shape = shape_for(kind, wanted);
  if (!shape) {
    row.infeasible = shape.error();
    return row;
  }
  const std::int32_t stages = kind.build(*shape).stages;
  const auto output = TRY(evaluate_schedule(kind, *shape, cut_costs(costs, shape->ranks, stages)));
  const ScheduleEvaluation& evaluation = output.evaluation;
  const double total = std::accumulate(evaluation.idle.begin(), evaluation.idle.end(), 0.0);
  row.chunks = stages / shape->ranks * output.schedule.directions;
  row.makespan = evaluation.makespan;
  if (row.makespan > 0) {
    row.average_bubble = total / shape->ranks / row.makespan;
    row.worst_bubble = *std::max_element(evaluation.idle.begin(), evaluation.idle.end()) / row.makespan;
  }
  row.peak_activations = *std::max_element(evaluation.peak_activations.begin(), evaluation.peak_activations.end()) *
                         (static_cast<double>(shape->ranks) / stages);
  row.parameter_copies = output.schedule.parameter_copies;
  row.lower_bound = output.lower_bound;
  if (costs.uniform.p2p > 0) row.exposed_p2p = TRY(exposed_p2p(kind, output));
  return row;
}

}  // namespace

std::string ComparedSchedule::reason() const {
  return infeasible->hint.empty() ? infeasible->message : fmt::format("{} ({})", infeasible->message, infeasible->hint);
}

CostTable cut_costs(const CostTable& costs, std::int32_t ranks, std::int32_t stages) {
  const double part = static_cast<double>(ranks) / stages;
  CostTable cut = costs;
  cut.uniform = scaled(costs.uniform, part);
  cut.stages.clear();
  if (costs.stages.empty()) return cut;
  for (std::int32_t stage = 0; stage < stages; ++stage)
    cut.stages.push_back(scaled(costs.stages[static_cast<std::size_t>(stage / (stages / ranks))], part));
  return cut;
}

Result<std::vector<ComparedSchedule>> compare_schedules(const ScheduleShape& shape, const CostTable& costs) {
  TRY(check_costs(shape, costs));
  std::vector<ComparedSchedule> rows;
  for (const ScheduleKind* kind : schedule_kinds()) rows.push_back(TRY(compare(*kind, shape, costs)));
  return rows;
}

}  // namespace plumbline::model
