// Decides when each pipeline rank reduces gradients and gathers parameters: the segment after which a unit can start,
// and the segment that waits for it. docs/parallelism.md derives the rules.
#pragma once

#include <vector>

#include "model/program/program.h"

namespace plumbline::model {

struct Plan;

struct SegmentSpan {  // segments first..last of a template
  std::int32_t first = -1, last = -1;
};
// Returns for each unit the segments of one side of a slot that read its parameters or (`writing`) write its gradients;
// {-1, -1} where there are none. A tensor belongs to at most one unit.
std::vector<SegmentSpan> segment_spans(const std::vector<Graph>& blocks, const SlotTemplate& slot, bool forward,
                                       const std::vector<ShardUnit>& units, bool writing);

// Returns the collectives of each rank in the order in which they can start. The program must have its slots, templates
// and units.
//   reduction, zero_stage 0, 1   once a step, after the last slot that writes the unit's gradients
//   reduction, zero_stage 2, 3   after every such slot; with reduce_after "run" not where the next one is of that stage
//   gather, zero_stage 1, 2      once a step, before the first slot that reads the parameters
//   gather, zero_stage 3         before every slot that reads them, unless they are still in memory
// A gather of zero_stage 3 starts when one of the overlap.prefetch + 1 buffers is free.
std::vector<std::vector<DataParallelCollectives>> data_parallel(const Plan& plan, const StepProgram& program);

}  // namespace plumbline::model
