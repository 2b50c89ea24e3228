// What a schedule slot does to the memory of its rank, operator by operator: read from tensor lifetimes
// once per distinct slot; the schedule then only adds such slots up.
#pragma once

#include <cstdint>
#include <vector>

#include "model/base/units.h"
#include "model/memory/stage_tensors.h"
#include "model/program/program.h"

namespace plumbline::model {

// While one operator of a slot runs: beside what the rank kept when the slot began.
struct SlotMoment {
  std::uint16_t segment = 0;         // of the template
  std::uint16_t operator_index = 0;  // within the segment
  Bytes activations;                 // kept for a later slot, minus what is released: negative in backward slots
  Bytes temporary;                   // tensors that live in this slot only
  Bytes communication;               // the received tokens that dispatch and combine write or read, and what goes to
                                     // or comes from the host
  Bytes sum() const { return activations + temporary + communication; }
};

struct SlotMemory {
  std::vector<SlotMoment> moments;  // in launch order
  std::size_t fullest = 0;          // the moment with the largest sum, the first of them
  Bytes most_kept;                  // the largest `activations`, at whichever moment; not below 0
  Bytes kept;                       // how much more the rank keeps after the slot than before
};

// Rules, on top of slot_uses.h: a tensor that F leaves for a later phase is kept from the operator that writes it (or
// from the start, when it is the message that came in) to its last reader; so is what I leaves for W. Any other tensor
// lives from writer to last reader; one that nobody in the slot writes came in from a neighbour when the slot began,
// and what the slot sends on lives until it ends. What goes to the host lives until its copy, what comes back from its
// copy on; the slot's template launches copies such that this is two blocks' worth (slot_copies.h).
SlotMemory slot_memory(const StepProgram& program, const SlotTemplate& slot, const std::vector<StageTensors>& kinds);

// Of every template of a program, in its order.
std::vector<SlotMemory> slot_memories(const StepProgram& program);

}  // namespace plumbline::model
