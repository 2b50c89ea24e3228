// Compares all registered schedules on the same work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/schedule/cost_table.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

struct ComparedSchedule {
  std::string kind;
  std::int32_t micro_batches = 1;
  std::optional<Error> infeasible;  // why the schedule does not exist for the shape; the rest is then unset
  std::int32_t chunks = 1;          // per rank, both directions together
  double makespan = 0;
  double average_bubble = 0, worst_bubble = 0;  // idle share of the average and of the worst rank
  double peak_activations = 0;                  // highest of any rank, in stages of a pipeline with one stage per rank
  std::int32_t parameter_copies = 1;
  std::optional<double> exposed_p2p;  // what p2p adds to the makespan, over p2p; none where p2p is 0
  double lower_bound = 0;

  std::string reason() const;  // why it is infeasible, with the remedy
};

// The costs are those of a pipeline of one stage per rank. Each schedule gets the same work: where it cuts the model
// into c times as many stages, a chunk costs 1/c and a message the same. In every schedule a rank computes M times F +
// B (or F + I + W) of a stage. The chunks per rank of `shape` apply to schedules that have this choice. Fails (input)
// where the costs do not fit the shape.
Result<std::vector<ComparedSchedule>> compare_schedules(const ScheduleShape& shape, const CostTable& costs);

// Returns the costs of the same model cut into `stages` instead of `ranks` stages.
CostTable cut_costs(const CostTable& costs, std::int32_t ranks, std::int32_t stages);

}  // namespace plumbline::model
