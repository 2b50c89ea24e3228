#include <algorithm>
#include <limits>

#include "model/schedule/evaluate.h"

namespace plumbline::model {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// Shortest ways of one direction, by stage: until its forward can start, and from the end of its input gradient
// to the end of stage 0's.
struct Ways {
  std::vector<double> in, out;
  double round_trip = 0;
};

Ways ways_of(const Schedule& schedule, const ChunkCosts& costs, std::int32_t direction) {
  const auto stages = static_cast<std::size_t>(schedule.stages);
  std::vector<double> forward(stages, never), backward(stages, never);  // the cheapest op of each stage
  for (const auto& ops : schedule.ranks) {
    for (const ScheduleOp& op : ops) {
      const double cost = costs.of(op);
      if (op.f_stage >= 0 && op.f_dir == direction) {
        double& cheapest = forward[static_cast<std::size_t>(op.f_stage)];
        cheapest = std::min(cheapest, cost);
      }
      if (op.b_stage >= 0 && op.b_dir == direction && op.type != OpType::W) {
        double& cheapest = backward[static_cast<std::size_t>(op.b_stage)];
        cheapest = std::min(cheapest, cost);
      }
    }
  }
  Ways ways{std::vector<double>(stages, 0), std::vector<double>(stages, 0)};
  for (std::size_t stage = 1; stage < stages; ++stage) {
    const auto here = static_cast<std::int32_t>(stage);
    const bool hops = schedule.rank_of(direction, here) != schedule.rank_of(direction, here - 1);
    const double hop = hops ? costs.p2p() : 0;
    ways.in[stage] = ways.in[stage - 1] + forward[stage - 1] + hop;
    ways.out[stage] = ways.out[stage - 1] + backward[stage - 1] + hop;
  }
  ways.round_trip = ways.in.back() + forward.back() + backward.back() + ways.out.back();
  return ways;
}

}  // namespace

double lower_bound(const Schedule& schedule, const ScheduleCosts& costs) {
  return lower_bound(schedule, UniformCosts(costs));
}

double lower_bound(const Schedule& schedule, const ChunkCosts& costs) {
  std::vector<Ways> ways;
  double bound = 0;
  for (std::int32_t direction = 0; direction < schedule.directions; ++direction) {
    ways.push_back(ways_of(schedule, costs, direction));
    bound = std::max(bound, ways.back().round_trip);
  }
  for (const auto& ops : schedule.ranks) {
    double fill = never, work = 0, drain = never;
    for (const ScheduleOp& op : ops) {
      work += costs.of(op);
      if (op.f_stage >= 0) {
        fill = std::min(fill, ways[static_cast<std::size_t>(op.f_dir)].in[static_cast<std::size_t>(op.f_stage)]);
      }
      if (op.b_stage < 0) continue;
      const double way = ways[static_cast<std::size_t>(op.b_dir)].out[static_cast<std::size_t>(op.b_stage)];
      drain = std::min(drain, op.type == OpType::W ? 0 : way);
    }
    if (!ops.empty()) bound = std::max(bound, fill + work + drain);
  }
  return bound;
}

}  // namespace plumbline::model
