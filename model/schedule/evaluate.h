// Runs a schedule with given costs: dependencies, in-order ranks, point-to-point. Used by the
// `schedule` verb and by tests; the step simulator has its own clock.
#pragma once

#include <vector>

#include "model/schedule/chunk_costs.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

struct ScheduleEvaluation {
  double makespan = 0;
  std::vector<double> busy;                    // per rank
  std::vector<double> idle;                    // per rank: makespan - busy
  std::vector<double> window;                  // per rank: end of last op - start of first op
  std::vector<std::int32_t> peak_activations;  // per rank, chunks
  std::vector<std::vector<double>> start;      // per rank, per op
};

// `mode` defaults to eager, as the JSON contract states. Fails (infeasible) when the schedule deadlocks,
// naming who waits for whom.
Result<ScheduleEvaluation> evaluate(const Schedule& schedule, const ScheduleCosts& costs,
                                    PointToPoint mode = PointToPoint::eager);
Result<ScheduleEvaluation> evaluate(const Schedule& schedule, const ChunkCosts& costs,
                                    PointToPoint mode = PointToPoint::eager);

// No order of the schedule's ops on its ranks ends earlier. Each rank waits for the shortest way from stage 0 to
// one of its stages, does all its work, and after its last op the shortest way of a gradient back to stage 0
// remains, if that op can be no weight gradient; and a micro-batch passes all stages forth and back.
double lower_bound(const Schedule& schedule, const ScheduleCosts& costs);
double lower_bound(const Schedule& schedule, const ChunkCosts& costs);

}  // namespace plumbline::model
