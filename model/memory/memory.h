// Computes the memory of every pipeline rank over a step from the lifetimes of the tensors in the operator graphs, of
// the hosts that wait for it, and of one block of a rank that serves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/units.h"
#include "model/graph/graph.h"
#include "model/memory/slot_memory.h"
#include "model/plan/layout.h"
#include "model/profile/cluster.h"
#include "model/program/program.h"
#include "model/result/result.h"

namespace plumbline::model {

struct Plan;

// Returns the memory of all ranks. The peak of a rank is the maximum of its timeline (slot_memory.h) on top
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
  std::string what;  // the operator, in words (slot_memory.h)
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

// Hosts hold offloaded optimizer states and activations, and a moving average of the parameters.

// Returns for each pipeline rank the most bytes of activations that wait on its host at once: what F of a micro-batch
// sends there waits for its backward, or for its W where the backward is split.
std::vector<double> waiting_on_host(const Plan& plan, const StepProgram& program);

// Returns the bytes of the host whose GPUs hold most, from those of each pipeline rank. All GPUs of a pipeline rank
// hold the same; they are consecutive, as are those of a host. A placement changes which ranks share a host, which is
// not looked at.
double fullest_host(const Plan& plan, const Device& device, const std::vector<double>& ranks);

// Returns how probable it is that a host of this capacity holds the bytes; 1 where the capacity is not known (0).
// Frameworks hold as much as the tensors and up to half more: pinned blocks are rounded up, and there are buffers of
// copies. DeepSpeed's own estimate takes the half (additional_buffer_factor of estimate_zero2_model_states_mem_needs,
// deepspeed/runtime/zero/stage_1_and_2.py).
double fits_on_host(double bytes, double capacity);

// The memory of a rank that serves, of one block: weights that stay, and activations of a pass of inference. Keys and
// values are counted by model/layers/key_value_cache.h, what the driver and libraries hold by MemoryReserve
// (model/profile/cluster.h).

// Returns the bytes of the parameters that a block owns; those that it shares belong to another one.
Bytes weight_bytes(const Graph& block);

// Returns the most that activations take at once in the forward operators of a block, which a pass runs one after the
// other. Each lives from its writer to its last reader, the block's input from the start and its output to the end.
Bytes activation_bytes(const Graph& block);

}  // namespace plumbline::model
