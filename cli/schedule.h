// The outputs of `plumbline schedule`, as pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/schedule_costs.h"
#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"

namespace plumbline::cli {

struct ScheduleOutput {
  model::Schedule schedule;
  CostInput costs;
  model::ScheduleEvaluation evaluation;  // under eager point-to-point
  std::vector<std::vector<double>> end;  // per rank, per op
  std::optional<double> exact_makespan;
  double lower_bound = 0;  // no order of these ops on these ranks is shorter
};

// Fails (infeasible) where the schedule does not exist for the shape, (input) where a cost file lists another number
// of stages or micro-batches than the schedule has.
model::Result<ScheduleOutput> evaluate_schedule(const model::ScheduleKind& kind, const model::ScheduleShape& shape,
                                                const CostInput& costs);

// One row per op: rank,slot,op,f_dir,f_stage,f_mb,b_dir,b_stage,b_mb; fields that an op lacks are empty.
std::string schedule_csv(const model::Schedule& schedule);
std::string schedule_json(const ScheduleOutput& output);
// The table per rank, the picture in a terminal of `width` columns, the makespan beside its bound.
std::string schedule_text(const ScheduleOutput& output, std::size_t width, bool colour);
std::string schedule_svg(const ScheduleOutput& output);

}  // namespace plumbline::cli
