// The memory of a pipeline rank over a step, schedule op by schedule op: what its micro-batches keep, what the
// running slot needs, and the messages on their way. Training state and reserves, which do not change, are not in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/units.h"
#include "model/memory/slot_memory.h"
#include "model/program/program.h"

namespace plumbline::model {

struct MemoryMoment {
  std::int32_t op = 0;            // of the rank's schedule; one past the last: after all of them
  bool messages = false;          // while the messages before `op` travel, else while an operator of the op runs
  std::uint32_t slot_moment = 0;  // that operator: index into SlotMemory::moments
  Bytes activations, temporary, communication;
  Bytes sum() const { return activations + temporary + communication; }
};

struct MemoryTimeline {
  std::vector<MemoryMoment> ops;  // the fullest moment of each op and its messages, in program order; one more at
                                  // the end of the step
  std::size_t fullest = 0;        // of ops
  Bytes left;                     // at the end of the step; nothing, or a tensor was never released
  Bytes activations_peak;         // the most that is kept at any time, at whichever moment
};

// `slots` are slot_memories(program). Messages are held as schedule/held_messages.h says.
MemoryTimeline memory_timeline(const StepProgram& program, const std::vector<SlotMemory>& slots, std::size_t rank);

// The same operator by operator, of one schedule op: its messages first.
std::vector<MemoryMoment> memory_within(const StepProgram& program, const std::vector<SlotMemory>& slots,
                                        std::size_t rank, std::int32_t op);

// "cross_entropy_grad of head in B of micro-batch 3", "messages before F of micro-batch 0", "messages after the last
// op", "end of the step". Layers have their number: "swiglu_grad of layer 17 in FB of micro-batches 4 and 1".
// Micro-batches count per direction.
std::string describe(const StepProgram& program, const std::vector<SlotMemory>& slots, std::size_t rank,
                     const MemoryMoment& moment);

}  // namespace plumbline::model
