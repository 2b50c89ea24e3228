// Computes the memory of a pipeline rank over a step, schedule op by schedule op: what its micro-batches keep, what the
// running slot needs, and the messages in flight. It leaves out training state and reserves, which do not change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/units.h"
#include "model/memory/slot_memory.h"
#include "model/program/program.h"

namespace plumbline::model {

struct MemoryMoment {
  std::int32_t op = 0;            // index in the rank's schedule; one past the last op: the end of the step
  bool messages = false;          // while the messages before `op` travel, else while an operator of the op runs
  std::uint32_t slot_moment = 0;  // index of that operator in SlotMemory::moments
  Bytes activations, temporary, communication;
  Bytes kept;    // activations when the op began
  Bytes routed;  // the part of the sum that varies with routing
  Bytes sum() const { return activations + temporary + communication; }
};

struct MemoryTimeline {
  std::vector<MemoryMoment> ops;  // the highest moment of each op and its messages, in program order; one more at
                                  // the end of the step
  std::size_t fullest = 0;        // index into ops
  Bytes left;                     // bytes kept at the end of the step; 0 unless a tensor was never released
  Bytes activations_peak;         // the most that is kept at any moment
};

// Returns the timeline of a rank. `slots` are slot_memories(program); messages are held as in schedule/transfers.h.
MemoryTimeline memory_timeline(const StepProgram& program, const std::vector<SlotMemory>& slots, std::size_t rank);

// Returns the moments of one schedule op operator by operator, its messages first.
std::vector<MemoryMoment> memory_within(const StepProgram& program, const std::vector<SlotMemory>& slots,
                                        std::size_t rank, std::int32_t op);

// Describes a moment: "cross_entropy_grad of head in B of micro-batch 3", "messages before F of micro-batch 0",
// "messages after the last op", "end of the step". Layers have their number: "swiglu_grad of layer 17 in FB of
// micro-batches 4 and 1". Micro-batches count per direction.
std::string describe(const StepProgram& program, const std::vector<SlotMemory>& slots, std::size_t rank,
                     const MemoryMoment& moment);

}  // namespace plumbline::model
