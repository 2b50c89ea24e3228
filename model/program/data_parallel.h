// Decides when each pipeline rank reduces gradients and gathers parameters: the segment after which a unit can start,
// and the segment that waits for it. docs/parallelism.md derives the rules.
//
// The optimizer step of one stage on one rank as a graph: gradients are reduced, AdamW or Muon updates this rank's
// shard of the master weights, and the new parameters are gathered (ZeRO, arXiv 1910.02054). The operators of each unit
// can run separately, when the rules above allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "model/graph/graph.h"
#include "model/plan/layout.h"
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
//   reduction, zero_stage 2, 3   after every such slot; with reduce_after "run" not where the next one is of the stage,
//                                with "step" as zero_stage 0, 1
//   gather, zero_stage 1, 2      once a step, before the first slot that reads the parameters
//   gather, zero_stage 3         before every slot that reads them, unless they are still in memory
// A gather of zero_stage 3 starts when one of the overlap.prefetch + 1 buffers is free.
std::vector<std::vector<DataParallelCollectives>> data_parallel(const Plan& plan, const StepProgram& program);

// A use of a unit's parameters under zero_stage 3, by one slot of a rank or by consecutive ones.
struct ParameterUse {
  std::int32_t stage = 0, unit = 0;
  DataParallelCollectives::Moment first, last;
  double seconds = 0;                          // of its gather, where that is known
  DataParallelCollectives::Moment after = {};  // its gather starts when this ends; none: with the step
  bool gathered = true;                        // false: the parameters are still in memory
};

// Adds the next use of a rank. Consecutive uses of a unit count as one, because its parameters stay.
inline void add_use(std::vector<ParameterUse>& uses, const ParameterUse& use) {
  if (!uses.empty() && uses.back().stage == use.stage && uses.back().unit == use.unit)
    uses.back().last = use.last;
  else
    uses.push_back(use);
}

// Sets `after` and `gathered` of a rank's uses. A gather takes the buffer of the use `buffers` before it; uses of an
// overlapped pair may be nested, then that of an earlier one. Without `reshard` a unit stays in memory from a forward
// until no micro-batch waits for its backward. `stages_of` returns the stage that a slot runs forward and the one whose
// parameters it reads backward, each -1 for none.
template <class StagesOf>
void plan_gathers(std::vector<ParameterUse>& uses, std::size_t buffers, bool reshard, const StagesOf& stages_of) {
  std::map<std::int32_t, std::int32_t> in_flight;               // micro-batches of a stage
  std::map<std::pair<std::int32_t, std::int32_t>, bool> there;  // (stage, unit)
  std::int32_t seen = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    ParameterUse& use = uses[i];
    for (; !reshard && seen <= use.first.slot; ++seen) {
      const std::int32_t ended = seen == 0 ? -1 : stages_of(seen - 1).second, begun = stages_of(seen).first;
      if (ended >= 0 && --in_flight[ended] == 0)
        std::erase_if(there, [&](const auto& entry) { return entry.first.first == ended; });
      if (begun >= 0) ++in_flight[begun];
    }
    use.gathered = reshard || !std::exchange(there[{use.stage, use.unit}], true);
    std::size_t freed = i < buffers ? 0 : i - buffers + 1;
    while (freed > 0 && uses[freed - 1].last >= use.first) --freed;
    if (freed > 0) use.after = uses[freed - 1].last;
  }
}

struct StageOptimizer {
  Graph graph;
  std::vector<ShardUnit> units;  // in the order in which the backward pass completes their gradients
};

// Under zero_stage 0 the gradients are all-reduced and every rank updates all parameters. Sharded gradients are
// reduce-scattered, all-reduced between the replicas of a shard, and the parameters all-gathered. Units of zero_stage 0
// to 2 are buckets of at least overlap.gradient_bucket_bytes of unsharded gradients; those of zero_stage 3 are blocks.
// Experts always form units of their own. Parameters that are stored in MXFP8 are gathered once a step in 16 bits, and
// every rank casts them. Frozen parameters are gathered only. `units` are those of the stage, in the order of
// stage_units().
//
// Muon (kellerjordan.github.io/posts/muon) has one moment. Five Newton-Schulz iterations in BF16 orthogonalise that of
// each matrix X [m, n], m <= n: A = X X^T, B = b A + c A A, X = a X + B X, 4 m^2 n + 2 m^3 FLOPs each. They need whole
// matrices, so where ranks have shards each gathers the moment of the matrices that its shard meets, those within it
// and one more, and computes with these (distributed Muon, arXiv 2502.16982, section 2.3). Tensor ranks orthogonalise
// the part of a matrix that they hold (muon_tp_mode blockwise of Megatron-LM).
StageOptimizer make_stage_optimizer(const Plan& plan, const Layout& layout, const std::vector<StageUnit>& units);

// Returns whether the plan keeps a master copy of parameters of this format. A master copy in the same 16-bit format
// would hold nothing that the parameter does not.
bool has_master_weights(const Plan& plan, DataType stored);

}  // namespace plumbline::model
