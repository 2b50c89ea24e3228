#include "model/schedule/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

namespace plumbline::model {

StageCosts::StageCosts(std::vector<StageCost> stages, double p2p, double pair,
                       std::vector<std::vector<double>> micro_batches)
    : ChunkCosts(p2p), stages_(std::move(stages)), pair_(pair), micro_batches_(std::move(micro_batches)) {}

double StageCosts::of(const ScheduleOp& op) const {
  double forward = 0, backward = 0;
  if (op.f_stage >= 0) {
    assert(static_cast<std::size_t>(op.f_stage) < stages_.size());
    forward = stages_[static_cast<std::size_t>(op.f_stage)].F * factor(op.f_dir, op.f_mb);
  }
  if (op.b_stage >= 0) {
    assert(static_cast<std::size_t>(op.b_stage) < stages_.size());
    const StageCost& stage = stages_[static_cast<std::size_t>(op.b_stage)];
    const double cost = op.type == OpType::I ? stage.I : op.type == OpType::W ? stage.W : stage.B;
    backward = cost * factor(op.b_dir, op.b_mb);
  }
  return op.type == OpType::FB ? pair_ * (forward + backward) : forward + backward;
}

double StageCosts::factor(std::int32_t direction, std::int32_t micro_batch) const {
  const auto side = static_cast<std::size_t>(direction), index = static_cast<std::size_t>(micro_batch);
  if (side >= micro_batches_.size() || index >= micro_batches_[side].size()) return 1;
  return micro_batches_[side][index];
}

namespace {

// A forward counts from its op on. A backward frees at its B, or at its W where split; in a pair the forward counts
// before the backward frees.
std::int32_t peak_activations(const std::vector<ScheduleOp>& ops) {
  std::int32_t held = 0, peak = 0;
  for (const ScheduleOp& op : ops) {
    if (op.f_stage >= 0) peak = std::max(peak, ++held);
    if (op.b_stage >= 0 && op.type != OpType::I) --held;
  }
  return peak;
}

constexpr double never = std::numeric_limits<double>::infinity();

// Shortest paths of one direction, by stage: until its forward can start (`in`), and from the end of its input gradient
// to the end of stage 0's (`out`).
struct Traversal {
  std::vector<double> in, out;
  double round_trip = 0;
};

// `cheapest` is the shortest time of an op of each class.
Traversal traversal_of(const ScheduleOutline& outline, const std::vector<double>& cheapest, double transfer,
                       std::int32_t direction) {
  const std::size_t stages = outline.transfers.size();
  std::vector<double> forward(stages, never), backward(stages, never);  // the cheapest op of each stage
  for (std::size_t c = 0; c < cheapest.size(); ++c) {
    const ScheduleTable::SlotClass& one = outline.classes[c];
    if (one.f_stage >= 0 && one.f_dir == direction) {
      double& least = forward[static_cast<std::size_t>(one.f_stage)];
      least = std::min(least, cheapest[c]);
    }
    if (one.b_stage >= 0 && one.b_dir == direction && one.type != OpType::W) {
      double& least = backward[static_cast<std::size_t>(one.b_stage)];
      least = std::min(least, cheapest[c]);
    }
  }
  Traversal result{std::vector<double>(stages, 0), std::vector<double>(stages, 0)};
  for (std::size_t stage = 1; stage < stages; ++stage) {
    const double message = outline.transfers[stage] ? transfer : 0;
    result.in[stage] = result.in[stage - 1] + forward[stage - 1] + message;
    result.out[stage] = result.out[stage - 1] + backward[stage - 1] + message;
  }
  result.round_trip = result.in.back() + forward.back() + backward.back() + result.out.back();
  return result;
}

// `work` is the total time of each rank's ops.
double bound_of(const ScheduleOutline& outline, const std::vector<double>& cheapest, const std::vector<double>& work,
                double transfer) {
  std::int32_t directions = 0;
  for (const ScheduleTable::SlotClass& one : outline.classes)
    directions = std::max({directions, one.f_dir + 1, one.b_dir + 1});
  std::vector<Traversal> traversals;
  double bound = 0;
  for (std::int32_t direction = 0; direction < directions; ++direction) {
    traversals.push_back(traversal_of(outline, cheapest, transfer, direction));
    bound = std::max(bound, traversals.back().round_trip);
  }
  for (std::size_t rank = 0; rank < outline.ranks.size(); ++rank) {
    double fill = never, drain = never;
    for (const auto& [slot_class, ops] : outline.ranks[rank]) {
      const ScheduleTable::SlotClass& one = outline.classes[slot_class];
      if (one.f_stage >= 0)
        fill =
            std::min(fill, traversals[static_cast<std::size_t>(one.f_dir)].in[static_cast<std::size_t>(one.f_stage)]);
      if (one.b_stage < 0) continue;
      const double drain_path =
          traversals[static_cast<std::size_t>(one.b_dir)].out[static_cast<std::size_t>(one.b_stage)];
      drain = std::min(drain, one.type == OpType::W ? 0 : drain_path);
    }
    if (!outline.ranks[rank].empty()) bound = std::max(bound, fill + work[rank] + drain);
  }
  return bound;
}

}  // namespace

Result<ScheduleEvaluation> evaluate(const Schedule& schedule, const ScheduleCosts& costs, PointToPoint mode) {
  return evaluate(schedule, UniformCosts(costs), mode);
}

Result<ScheduleEvaluation> evaluate(const Schedule& schedule, const ChunkCosts& costs, PointToPoint mode) {
  const auto table = TRY(order_ops(schedule, mode));
  ScheduleEvaluation result;
  result.start.resize(schedule.ranks.size());
  std::vector<double> ends(schedule.ranks.size(), 0.0);  // end of each rank's last op
  result.busy = ends;
  const auto seconds = [&](std::size_t i) {
    const std::size_t rank = table.ops[i].rank;
    return costs.of(schedule.ranks[rank][result.start[rank].size()]);
  };
  run_table(table, costs.p2p(), seconds, [&](std::size_t i, double start, double end) {
    const std::size_t rank = table.ops[i].rank;
    result.busy[rank] += seconds(i);
    result.start[rank].push_back(start);
    ends[rank] = end;
  });
  result.makespan = ends.empty() ? 0 : *std::ranges::max_element(ends);
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    result.idle.push_back(result.makespan - result.busy[rank]);
    result.window.push_back(result.start[rank].empty() ? 0 : ends[rank] - result.start[rank].front());
    result.peak_activations.push_back(peak_activations(schedule.ranks[rank]));
  }
  return result;
}

ScheduleOutline::ScheduleOutline(const ScheduleTable& table) : classes(table.classes) {
  for (const ScheduleTable::Rank& rank : table.ranks) {
    std::vector<std::int64_t> ops(classes.size(), 0);
    for (const std::uint32_t op : rank.ops) ++ops[table.ops[op].slot_class];
    Counts& counts = ranks.emplace_back();
    for (std::size_t c = 0; c < ops.size(); ++c)
      if (ops[c] > 0) counts.emplace_back(static_cast<std::uint32_t>(c), ops[c]);
  }
  transfers.push_back(false);
  for (std::int32_t stage = 1; stage < table.outline.stages; ++stage)
    transfers.push_back(table.outline.rank_of(0, stage) != table.outline.rank_of(0, stage - 1));
}

double lower_bound(const ScheduleOutline& outline, const std::vector<double>& costs, double transfer) {
  std::vector<double> work;
  for (const ScheduleOutline::Counts& rank : outline.ranks) {
    double& sum = work.emplace_back(0);
    for (const auto& [slot_class, ops] : rank) sum += static_cast<double>(ops) * costs[slot_class];
  }
  return bound_of(outline, costs, work, transfer);
}

double lower_bound(const Schedule& schedule, const ChunkCosts& costs) {
  const ScheduleTable table = order_ops(schedule, PointToPoint::eager).value();
  std::vector<double> cheapest(table.classes.size(), never), work;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    double& sum = work.emplace_back(0);
    for (std::size_t k = 0; k < schedule.ranks[rank].size(); ++k) {
      const double cost = costs.of(schedule.ranks[rank][k]);
      double& least = cheapest[table.ops[table.ranks[rank].ops[k]].slot_class];
      least = std::min(least, cost);
      sum += cost;
    }
  }
  return bound_of(ScheduleOutline(table), cheapest, work, costs.p2p());
}

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
