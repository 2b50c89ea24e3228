// Computes how a schedule slot changes the memory of its rank, operator by operator. It is computed from tensor
// lifetimes once per distinct slot; the memory of a schedule is a sum over its slots: its timeline.
//
// Lists the tensors of one stage, each under one number, and how long the schedule keeps it, from the operators that
// write and read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/units.h"
#include "model/program/program.h"

namespace plumbline::model {

// The phases of a micro-batch between which a tensor is kept; they may be in different slots.
enum class Lifetime : std::uint8_t {
  never,                     // parameters, gradients of parameters, constants: counted elsewhere
  within_slot,               // written and read in one phase
  forward_to_input,          // F leaves it for I
  forward_to_weight,         // F leaves it for W (I may read it too)
  input_gradient_to_weight,  // I leaves it for W
};

struct StageTensor {
  Bytes bytes;  // 0 of what is within kernels alone
  Lifetime lifetime = Lifetime::never;
  bool received = false;  // a buffer of received tokens that dispatch or combine writes or reads
  bool routed = false;    // its size varies with routing
  Bytes on_host;          // part of `bytes` that waits in host memory from F to the phase that reads it first
};

// Numbers the tensors of a stage. A tensor that passes from one block to the next has two names but one number: that of
// the block that writes it, also through blocks that pass it on. A result that overwrites an operand has its number.
class StageIndex {
 public:
  StageIndex(const StageKind& stage, const std::vector<Graph>& blocks);

  std::size_t size() const { return index_.size(); }  // numbers of tensors that another block writes are unused
  // Returns the number of tensor `id` of the block at a position of the stage.
  std::uint32_t operator()(std::size_t position, TensorId id) const { return index_[first_[position] + id]; }

 private:
  std::vector<std::uint32_t> first_;  // index of each block's first tensor
  std::vector<std::uint32_t> index_;
};

class StageTensors {
 public:
  StageTensors(const StepProgram& program, std::int32_t stage_kind);

  std::size_t size() const { return tensors_.size(); }
  std::uint32_t index(std::uint16_t position, TensorId id) const { return index_(position, id); }
  const StageTensor& operator[](std::uint32_t index) const { return tensors_[index]; }

  std::uint32_t output() const { return output_; }                  // output of the last block
  std::uint32_t input_gradient() const { return input_gradient_; }  // input gradient of the first block

  Bytes on_host() const;  // what one micro-batch leaves in host memory
  // Returns what one micro-batch leaves between its phases, on the device or its host.
  Bytes kept(Lifetime lifetime) const;
  Bytes kept_after_forward() const { return kept(Lifetime::forward_to_input) + kept(Lifetime::forward_to_weight); }
  Bytes kept_for_weights() const {  // after I
    return kept(Lifetime::forward_to_weight) + kept(Lifetime::input_gradient_to_weight);
  }

 private:
  StageIndex index_;
  std::vector<StageTensor> tensors_;  // [number]
  std::uint32_t output_ = 0, input_gradient_ = 0;
};

// The memory while one operator of a slot runs, on top of what the rank kept when the slot began.
struct SlotMoment {
  std::uint16_t segment = 0;         // index in the template
  std::uint16_t operator_index = 0;  // within the segment
  Bytes activations;                 // kept for a later slot, minus what is released: negative in backward slots
  Bytes temporary;                   // tensors that live in this slot only
  Bytes communication;               // received tokens that dispatch and combine write or read, and copies to or from
                                     // the host
  Bytes routed;                      // the part of the sum that varies with routing
  Bytes sum() const { return activations + temporary + communication; }
};

struct SlotMemory {
  std::vector<SlotMoment> moments;  // in launch order
  std::size_t fullest = 0;          // the moment with the largest sum, the first of them
  Bytes most_kept;                  // the largest `activations` of any moment; not below 0
  Bytes kept;                       // how much more the rank keeps after the slot than before
  Bytes kept_routed;                // the part of it that varies with routing
};

// The rules add to those of slot_uses(). A tensor that F leaves for a later phase is kept from the operator that writes
// it to its last reader; a received message from the start of the slot. The same holds for tensors that I leaves for W.
// Any other tensor lives from writer to last reader. One that no operator of the slot writes was received when the slot
// began; one that the slot sends lives until the slot ends. A tensor on its way to the host lives until its copy, one
// that comes back from its copy on. The slot's template limits these copies to two blocks' worth (compile.cc).
SlotMemory slot_memory(const StepProgram& program, const SlotTemplate& slot, const std::vector<StageTensors>& kinds);

// Returns the memory of every template of a program, in its order.
std::vector<SlotMemory> slot_memories(const StepProgram& program);

// When the operators of a slot use a tensor of its stages; the executor, which frees buffers, asks too. Operators count
// from 0 over all segments of the slot, in launch order.
struct SlotUse {
  std::int32_t first = -1;  // -1: no operator uses the tensor; 0 where it is read before it is written, because it
                            // existed when the slot began
  std::int32_t last = -1;   // the tensor lives until this operator ends, unless a later slot or another rank needs it
  bool copied = false;      // to the host or back
  std::optional<Stream> only_stream;  // the stream of all operators that use it; none if they use several
};

struct SlotUses {
  std::vector<SlotUse> forward, backward;  // [tensor of the side's stage]; empty where the slot lacks the side
  std::size_t operators = 0;
};

// `forward` and `backward` are the tensors of the stages that the slot runs; null where it lacks the side.
SlotUses slot_uses(const std::vector<Graph>& blocks, const SlotTemplate& slot, const StageTensors* forward,
                   const StageTensors* backward);

// The memory of a pipeline rank over a step, schedule op by schedule op: what its micro-batches keep, what the running
// slot needs, and the messages in flight. It leaves out training state and reserves, which do not change.
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

// Returns the timeline of a rank. `slots` are slot_memories(program); messages are held as in schedule/schedule.h.
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
