// Computes the memory of every pipeline rank over a step from the lifetimes of the tensors in the operator graphs, of
// the hosts that wait for it, and of one block of a rank that serves.
//
// Changes of a plan, their effect on its memory and what they cost in time. Plain data, found by
// sim/analysis/memory_advice.h.
//
// Computes the peak of a rank: live tensors on top of what stays, and memory outside the tensors of the model (driver,
// libraries, allocator), whose constants are the device's.
//
// Counts the parameters, gradients and optimizer states that a pipeline rank holds through the whole step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/units.h"
#include "model/graph/graph.h"
#include "model/memory/slot_memory.h"
#include "model/plan/layout.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"
#include "model/program/program.h"
#include "model/result/result.h"
#include "model/schedule/schedule_table.h"

namespace plumbline::model {

struct Plan;

struct StateBytes {
  Bytes parameters;  // zero_stage 3: the rank's shard and the gathered units
  Bytes gradients;   // zero_stage 2, 3: the rank's shard and what waits for its reduction, two units or (reduce_after
                     // "run") a stage; with the FP32 sums of optimizer.gradient_copy, which are divided like them
  Bytes optimizer;   // the rank's shard of master weights and two moments; none where the host holds them
};
struct ParameterCounts {  // of those that a rank trains, in elements where no unit is given
  double held = 0;        // zero_stage 3: its shards
  double updated = 0;     // those that its optimizer updates
  double largest = 0;     // the largest tensor; of experts one
  Bytes shards;           // zero_stage 3: of the parameters in their own format, where there are master weights
  Bytes on_host;          // host memory: offloaded states with the gradients of the update, and the moving average
  double shapes = 0;      // one matrix of each shape, without tables of embeddings
};
struct TrainingState {
  StateBytes experts, others;
  ParameterCounts counts;
  // Part of the bytes above, zero_stage 3: overlap.prefetch + 1 consecutive units, all without resharding.
  Bytes gathered_parameters;
};

// Returns the state of a rank that holds `stages`. A parameter that blocks share counts once, also where its owner is
// on another rank and this one holds a copy.
TrainingState training_state(const Plan& plan, const Layout& layout, const StepProgram& program,
                             const std::vector<std::int64_t>& stages);

struct StageParameters {  // parameters of one stage
  const StageKind* kind = nullptr;
  const std::vector<ShardUnit>* units = nullptr;  // may be null
};
// Returns the same without a whole program.
TrainingState training_state(const Plan& plan, const Layout& layout, const std::vector<Graph>& blocks,
                             const std::vector<StageParameters>& stages);

// Returns the bytes of a parameter of the GEMMs' format with its optimizer states, wherever they are held.
double state_bytes_per_parameter(const Plan& plan);

struct Plan;

// Returns the device with the constants allocator.* of a profile, which replace the device's own of the same meaning.
Device with_allocator(Device device, const Profile& profile);

struct RankHolding {
  Bytes state;      // parameters, gradients and optimizer states
  Bytes gradients;  // those within `state`
  ParameterCounts counts;
  Bytes dynamic;  // activations, temporary tensors and messages at the fullest moment
  Bytes kept;     // the activations of that moment that were kept when its slot began
  Bytes outputs;  // of the stages, for all micro-batches whose backward has not begun
};

struct RankPeak {
  Bytes state, dynamic;
  // Buffers that communication libraries keep through the whole step. There is one set of connections for every group
  // of ranks in which the plan communicates, and the expert all-to-all's own where experts are on several ranks. The
  // buffers of reductions are counted too; where the software states none, two gradient buckets (one is sent while the
  // next fills), each at most as large as the gradients.
  Bytes buffers;
  // Tensors of the software that are not in the graph: gradients of weights before they are added, and outputs of
  // stages. 0 where the profile has no allocator.* constant of them.
  Bytes software;
  // The driver's context, a GEMM workspace for each stream that runs GEMMs (compute and weight gradients), and what the
  // allocator holds in addition to the live dynamic tensors.
  Bytes reserve;
  // The part of `reserve` that the allocator holds. Copies of gradients for the update are in it: they need segments of
  // their own, because those of activations are too small. Under full recomputation the kept tensors are inputs of
  // layers, which are all of one size: one takes the block of another, and none lies unused between them. Both are held
  // only as long as the device has space, since an allocator returns empty segments before it fails.
  Bytes held;
  Bytes low, high;                        // the interval of the sum that follows from the fragmentation's
  Bytes held_low, held_usual, held_high;  // the same of `held`, on a device without limit
  Bytes sum() const { return state + (dynamic + buffers + reserve) + software; }
  // What the tensors of a framework take, and the segments that its allocator holds for them.
  Bytes allocated() const { return state + dynamic + software + workspaces; }
  Bytes segments() const { return allocated() + held; }
  Bytes workspaces;  // buffers of reductions that are tensors of the framework
  // What the driver and libraries hold: context, workspaces of GEMMs, connections and buffers of transfers.
  Bytes libraries() const { return buffers - workspaces + (reserve - held); }
};

// The sum never falls when a part of the holding grows, so it is a lower bound of the peak wherever these are.
RankPeak rank_peak(const Plan& plan, const Layout& layout, const Device& device, const RankHolding& holding);

struct ChunkBytes {  // kept by one micro-batch on one stage, between its phases
  Bytes after_forward, for_weights;
};

struct FullestMoment {
  Bytes sum, kept;  // as RankHolding's dynamic and kept
};
// Returns the most that a rank's activations, temporary tensors and messages take. `chunks` has one entry per stage;
// `slots` is what each slot class needs on top of what was kept before; `message` is one between stages.
FullestMoment fullest_moment(const ScheduleTable::Rank& rank, const std::vector<ChunkBytes>& chunks,
                             const std::vector<Bytes>& slots, Bytes message);

struct Plan;

// Returns the memory of all ranks. The peak of a rank is the maximum of its timeline (slot_memory.h) on top
// of what stays: parameters, gradients, optimizer states, library buffers and reserves;
// with_allocator() adds what the software of a profile holds to a device.
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

struct MemoryChange {
  std::vector<std::string> settings;  // as for --set: "recompute.policy=full"; several where one requires another
  double peak_bytes = 0;              // the highest of the changed plan's ranks
  std::string peak_operator;          // what runs at that peak
  // Of the rank that needs most at least. What its allocator holds unused is that on a device without limit.
  double allocated_bytes = 0;                          // tensors
  double unused_low_bytes = 0, unused_high_bytes = 0;  // what the allocator holds in addition
  double fits_probability = 0;                         // as clusters run it
  double margin_bytes = 0;                             // what is left with the least unused; below 0: it does not fit
  std::optional<double> step_ratio = std::nullopt;     // of the step's time to the plan's own, where it fits
};

struct MemoryAdvice {
  std::vector<MemoryChange> fitting;    // the cheapest in time first, of equal ones the highest peak
  std::optional<MemoryChange> closest;  // when nothing fits: the likeliest to fit, of equal ones the lowest peak
  std::size_t tried = 0;                // number of changes that the layout allows
};

}  // namespace plumbline::model
