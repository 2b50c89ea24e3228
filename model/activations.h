// Activations that the blocks of a stage hold between the phases of a micro-batch, and the working sets
// of schedule slots, both from the lifetimes of the tensors that operators name.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "model/program.h"
#include "model/units.h"

namespace plumbline::model {

// Position of the block in its stage, tensor of its graph. What crosses from one block to the next has
// two names; only one of them is used here.
using StageTensor = std::pair<std::uint16_t, TensorId>;

// What a step of work does to the bytes held: takes first, then releases.
struct HeldChange {
  Bytes take, release;
};

struct StageActivations {
  std::set<StageTensor> forward;         // F leaves them for I or W
  std::set<StageTensor> input_gradient;  // I leaves them for W
  Bytes forward_bytes;
  Bytes forward_until_weight_gradient;  // the part of forward_bytes that W reads too
  Bytes input_gradient_bytes;
  std::vector<HeldChange> input_gradient_steps;  // of phase I, block by block from the last
};
StageActivations stage_activations(const StepProgram& program, std::int32_t stage_kind);

// Largest sum of held activations on a rank, over its schedule. The F of a pair counts before its B
// releases; every block of an I takes what it leaves before it releases what nobody reads any more.
Bytes peak_activations(const StepProgram& program, std::size_t rank);

// Largest sum of the tensors that live within one slot of the rank only, in launch order, plus the
// messages of its largest point-to-point batch, whose buffers are apart from those of the slots.
Bytes peak_buffers(const StepProgram& program, std::size_t rank);

}  // namespace plumbline::model
