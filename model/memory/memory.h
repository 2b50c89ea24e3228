// Memory of every pipeline rank over a step, from the lifetimes of the tensors that the operator graphs name.
#pragma once

#include "model/memory/slot_memory.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/program/program.h"
#include "model/result/result.h"

namespace plumbline::model {

// The peak of a rank is the maximum of its timeline (detail/memory_timeline.h) on top of what stays: parameters,
// gradients and optimizer states (training_state.h), buffers of libraries and reserves (memory_reserve.h, which sums
// them up).
Memory memory(const Plan& plan, const Layout& layout, const StepProgram& program, const ClusterShape& cluster);
// The same from slot_memories(program), for who needs them besides.
Memory memory(const Plan& plan, const Layout& layout, const StepProgram& program, const ClusterShape& cluster,
              const std::vector<SlotMemory>& slots);

// The rank with the highest peak, the first of them; nullptr when there is none.
const RankMemory* fullest_rank(const Memory& memory);

// A rank over the step: all that it holds at the fullest moment of each schedule op.
struct MemoryLevel {
  std::string what;  // the operator, in words (detail/memory_timeline.h)
  std::string op;    // "F", "B", "I", "W", "FB"; "" after the last
  double activations_bytes = 0, temporary_bytes = 0, communication_bytes = 0;  // libraries' buffers included
  double total_bytes = 0;  // with parameters, gradients, optimizer and reserve
};
struct RankLevels {
  RankMemory rank;
  std::vector<MemoryLevel> ops;   // of each schedule op in program order, and the end of the step
  std::vector<MemoryLevel> peak;  // operator by operator within the fullest op
  std::size_t fullest = 0;        // of ops
};
// `rank` is one of `memory`, which the same plan and program gave.
RankLevels rank_levels(const Memory& memory, const StepProgram& program, const std::vector<SlotMemory>& slots,
                       std::size_t rank);

// "does not fit: rank 3 needs 95.3 GB of 84.9 GB; largest: activations, 40.1 GB", of the fullest rank; "" when
// all fit.
std::string infeasible_reason(const Memory& memory);

}  // namespace plumbline::model
