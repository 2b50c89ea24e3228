#include "model/memory/slot_uses.h"

namespace plumbline::model {
namespace {

void use(SlotUse& use, std::int32_t first, std::int32_t last, Stream stream) {
  if (use.first < 0) {
    use.first = first;
    use.only_stream = stream;
  }
  use.last = last;
  if (use.only_stream != stream) use.only_stream.reset();
}

}  // namespace

SlotUses slot_uses(const std::vector<Graph>& blocks, const SlotTemplate& slot, const StageTensors* forward,
                   const StageTensors* backward) {
  SlotUses uses;
  if (forward != nullptr) uses.forward.resize(forward->size());
  if (backward != nullptr) uses.backward.resize(backward->size());
  for (const Segment& segment : slot.segments) {
    const StageTensors& tensors = segment.forward_side ? *forward : *backward;
    std::vector<SlotUse>& side = segment.forward_side ? uses.forward : uses.backward;
    const auto of = [&](TensorId id) -> SlotUse& { return side[tensors.index(segment.block_of_stage, id)]; };
    for (const std::uint16_t index : segment.operators) {
      const Operator& op = blocks[segment.block].operators[index];
      const auto now = static_cast<std::int32_t>(uses.operators++);
      for (const TensorId id : op.reads) use(of(id), 0, now, segment.stream);
      for (const TensorId id : op.writes) use(of(id), now, now, segment.stream);
      if (op.kind == OperatorKind::copy_to_host) of(op.reads[0]).copied = true;
      if (op.kind == OperatorKind::copy_to_device) of(op.writes[0]).copied = true;
    }
  }
  return uses;
}

}  // namespace plumbline::model
