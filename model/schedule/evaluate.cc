#include "model/schedule/evaluate.h"

#include <algorithm>

#include "model/schedule/schedule_table.h"

namespace plumbline::model {
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

}  // namespace plumbline::model
