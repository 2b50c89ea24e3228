// Finds when the operators of a slot use each tensor of its stages. The memory prediction (slot_memory.h) and the
// executor, which frees buffers, both use it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/memory/stage_tensors.h"
#include "model/program/program.h"

namespace plumbline::model {

// Operators count from 0 over all segments of the slot, in launch order.
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

}  // namespace plumbline::model
