// Runs a schedule with given costs, by its dependencies, the op order of its ranks, and point-to-point transfers.
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

// `mode` defaults to eager, as the JSON contract states. Fails (infeasible) when the schedule deadlocks and names the
// ops that wait for each other.
Result<ScheduleEvaluation> evaluate(const Schedule& schedule, const ScheduleCosts& costs,
                                    PointToPoint mode = PointToPoint::eager);
Result<ScheduleEvaluation> evaluate(const Schedule& schedule, const ChunkCosts& costs,
                                    PointToPoint mode = PointToPoint::eager);

}  // namespace plumbline::model
