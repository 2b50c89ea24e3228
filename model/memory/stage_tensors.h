// Lists the tensors of one stage, each under one number, and how long the schedule keeps it, from the operators that
// write and read it.
#pragma once

#include <cstdint>
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

}  // namespace plumbline::model
