// When each pipeline rank reduces gradients and gathers parameters: which segment's end lets a unit start, and which
// segment waits for it. docs/parallelism.md derives the rules.
#pragma once

#include <vector>

#include "model/plan/plan.h"
#include "model/program/program.h"

namespace plumbline::model {

struct SegmentSpan {  // of a template
  std::int32_t first = -1, last = -1;
};
// Of each unit: segments of a slot's side that read its parameters, or write its gradients; none: {-1, -1}. A tensor
// belongs to one unit at most.
std::vector<SegmentSpan> segment_spans(const std::vector<Graph>& blocks, const SlotTemplate& slot, bool forward,
                                       const std::vector<ShardUnit>& units, bool writing);

// Of a program whose slots, templates and units are there; in the order in which they can start, per rank.
//   reduction, zero_stage 0, 1   once a step, after the last slot that writes the unit's gradients
//   reduction, zero_stage 2, 3   after every such slot
//   gather, zero_stage 1, 2      once a step, before the first slot that reads the parameters
//   gather, zero_stage 3         before every slot that reads them, unless they are still there
// A gather of zero_stage 3 starts when a buffer is free: there are overlap.prefetch + 1.
std::vector<std::vector<DataParallelCollectives>> data_parallel(const Plan& plan, const StepProgram& program);

}  // namespace plumbline::model
