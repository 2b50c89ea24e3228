// The tensors of one stage, each under one name, with how long the schedule keeps it: read from the
// operators that write and read it.
#pragma once

#include <cstdint>
#include <vector>

#include "model/base/units.h"
#include "model/program/program.h"

namespace plumbline::model {

// From which phase of a micro-batch to which a tensor is kept; the phases may lie in different slots.
enum class Kept : std::uint8_t {
  never,                     // parameters, gradients of parameters, constants: counted elsewhere
  within_slot,               // written and read in one phase
  forward_to_input,          // F leaves it for I
  forward_to_weight,         // F leaves it for W (I may read it too)
  input_gradient_to_weight,  // I leaves it for W
};

struct StageTensor {
  Bytes bytes;
  Kept kept = Kept::never;
  bool exchanged = false;  // a buffer of received tokens that dispatch or combine writes or reads
  Bytes on_host;           // of its bytes, those that wait in host memory from F to the phase that reads it first
};

class StageTensors {
 public:
  StageTensors(const StepProgram& program, std::int32_t stage_kind);

  std::size_t size() const { return tensors_.size(); }
  // Tensor `id` of the block at a position of the stage. What crosses from one block to the next has two names and
  // one index: an activation is known by the block that writes it, a gradient too.
  std::uint32_t index(std::uint16_t position, TensorId id) const { return index_[first_[position] + id]; }
  const StageTensor& operator[](std::uint32_t index) const { return tensors_[index]; }

  std::uint32_t output() const { return output_; }                  // of the last block
  std::uint32_t input_gradient() const { return input_gradient_; }  // of the first block

  // What one micro-batch leaves between its phases, on the device or its host.
  Bytes kept(Kept kept) const;
  Bytes kept_after_forward() const { return kept(Kept::forward_to_input) + kept(Kept::forward_to_weight); }

 private:
  std::vector<std::uint32_t> first_;  // of each block
  std::vector<std::uint32_t> index_;
  std::vector<StageTensor> tensors_;  // unused where a tensor goes by its neighbour's name
  std::uint32_t output_ = 0, input_gradient_ = 0;
};

}  // namespace plumbline::model
