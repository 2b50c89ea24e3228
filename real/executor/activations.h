// The activations of one stage on one rank. Tensors that a micro-batch leaves between its phases, or that cross to
// another stage, have a buffer for every micro-batch in flight; all others one for each side of a slot. Buffers that
// come back are used again, so that memory is taken in the first step only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "model/program.h"
#include "model/stage_tensors.h"
#include "real/executor/device.h"

namespace plumbline::real {

class Activations {
 public:
  Activations(Device& device, const model::StepProgram& program, std::int32_t stage_kind);

  // Of tensor `id` of the block at a position of the stage; `key` names the micro-batch, `forward` the side of the
  // slot.
  Buffer* find(std::uint16_t position, model::TensorId id, std::int64_t key, bool forward);

  // What crosses to or from the stages before and after.
  Buffer* input(std::int64_t key) { return find(0, first().input, key, true); }
  Buffer* output(std::int64_t key) { return find(last_position(), last().output, key, true); }
  Buffer* output_gradient(std::int64_t key) { return find(last_position(), last().output_gradient, key, false); }
  Buffer* input_gradient(std::int64_t key) { return find(0, first().input_gradient, key, false); }

  // The slot with this phase of the micro-batch has been launched. `input_and_weight`: of a full backward pass.
  void end_forward(std::int64_t key);
  void end_input_gradient(std::int64_t key);
  void end_weight_gradient(std::int64_t key);
  // A message with it has been launched, which ends with the event.
  void sent_output(std::int64_t key, Event event);
  void sent_input_gradient(std::int64_t key, Event event);

 private:
  struct Free {
    BufferPointer buffer;
    std::optional<Event> busy_until;
  };
  const model::Graph& first() const { return graph(0); }
  const model::Graph& last() const { return graph(last_position()); }
  const model::Graph& graph(std::uint16_t position) const;
  std::uint16_t last_position() const { return static_cast<std::uint16_t>(blocks_.size() - 1); }
  bool per_micro_batch(std::uint32_t index) const;
  BufferPointer take(std::uint32_t index, const model::Tensor& tensor);
  void release(std::uint32_t index, std::int64_t key, std::optional<Event> busy_until);
  void release_kept(model::Kept kept, std::int64_t key);
  void sent(std::uint32_t index, std::int64_t key, Event event);

  Device& device_;
  const model::StepProgram& program_;
  std::vector<std::uint16_t> blocks_;
  model::StageTensors tensors_;
  std::uint32_t input_ = 0, output_gradient_ = 0;
  std::set<std::uint32_t> retained_;  // losses: looked at when the step is over
  std::map<std::pair<std::uint32_t, std::int64_t>, BufferPointer> in_flight_;
  std::map<std::pair<std::uint32_t, bool>, BufferPointer> temporary_;
  std::map<std::uint32_t, std::vector<Free>> free_;
};

}  // namespace plumbline::real
