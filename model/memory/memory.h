// Computes the memory of every pipeline rank over a step from the lifetimes of the tensors in the operator graphs.
#pragma once

#include <string>
#include <string_view>

#include "model/memory/slot_memory.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/program/program.h"
#include "model/result/result.h"

namespace plumbline::model {

// Returns the memory of all ranks. The peak of a rank is the maximum of its timeline (detail/memory_timeline.h) on top
// of what stays: parameters, gradients, optimizer states (training_state.h), library buffers and reserves
// (memory_reserve.h, which sums them; with_allocator() there adds what the software of a profile holds to a device).
Memory memory(const Plan& plan, const Layout& layout, const StepProgram& program, const Device& device);
// Returns the same from slot_memories(program), for callers that have them.
Memory memory(const Plan& plan, const Layout& layout, const StepProgram& program, const Device& device,
              const std::vector<SlotMemory>& slots);

// Returns the rank that decides whether the plan fits, the first of several; nullptr when there is none. It is that
// with the highest peak; where allocators fill devices, which makes peaks equal, the one that needs most at least.
const RankMemory* fullest_rank(const Memory& memory);

// Whether a plan fits in memory: with at least surely_fits, with less than hardly_fits, or in between. What a decision
// needs, not what a measurement gives.
enum class Fit { fits, at_the_edge, does_not_fit };
inline constexpr double surely_fits = 0.95, hardly_fits = 0.05;
Fit fit_of(double probability);
// Returns the verdict of the memory's probability; where none was drawn, that of its peak.
Fit fit_of(const Memory& memory);
std::string_view to_string(Fit fit);  // "fits" | "at the edge" | "does not fit"

// All that a rank holds at the highest moment of a schedule op, in bytes.
struct MemoryLevel {
  std::string what;  // the operator, in words (detail/memory_timeline.h)
  std::string op;    // "F", "B", "I", "W", "FB"; "" after the last
  double activations_bytes = 0, temporary_bytes = 0, communication_bytes = 0;  // libraries' buffers included
  double total_bytes = 0;  // with parameters, gradients, optimizer and reserve
};
struct RankLevels {
  RankMemory rank;
  std::vector<MemoryLevel> ops;   // one per schedule op in program order, and the end of the step
  std::vector<MemoryLevel> peak;  // operator by operator within the op of the peak
  std::size_t fullest = 0;        // index into ops
};
// Returns the levels of a rank of `memory`, which must come from the same plan and program.
RankLevels rank_levels(const Memory& memory, const StepProgram& program, const std::vector<SlotMemory>& slots,
                       std::size_t rank);

// Returns "does not fit: rank 3 needs 95.3 GB of 84.9 GB; largest: activations, 40.1 GB" for fullest_rank(), by
// fit_of(); "" otherwise.
std::string infeasible_reason(const Memory& memory);
// Returns which half of reinforcement learning does not fit: "does not fit: a GPU that generates needs 90.1 GB of 85.0
// GB"; "" where both do.
std::string infeasible_reason(const RolloutMemory& memory);
// Returns why a step cannot run: its own memory, engines that cannot be, or the memory of both halves; "" where it can.
std::string infeasible_reason(const StepResult& result);

}  // namespace plumbline::model
