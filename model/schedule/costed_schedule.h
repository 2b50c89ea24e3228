// Evaluates a schedule with the costs of its ops.
#pragma once

#include <optional>
#include <vector>

#include "model/schedule/cost_table.h"
#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

struct CostedSchedule {
  Schedule schedule;
  CostTable costs;
  ScheduleEvaluation evaluation;         // under eager point-to-point
  std::vector<std::vector<double>> end;  // per rank, per op
  std::optional<double> exact_makespan;
  double lower_bound = 0;  // no order of these ops on these ranks is shorter
};

// Fails as infeasible where the schedule does not exist for the shape, and with an input error where a cost file lists
// another number of stages or micro-batches than the schedule has.
Result<CostedSchedule> evaluate_schedule(const ScheduleKind& kind, const ScheduleShape& shape, const CostTable& costs);

}  // namespace plumbline::model
