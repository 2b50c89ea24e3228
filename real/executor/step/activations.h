// The activations of one stage on one rank. Tensors that live from one phase of a micro-batch to another, or that cross
// to another stage, have a buffer for every micro-batch in flight. All others are temporary: each side (forward or
// backward) of a slot has them from the first kernel that uses them to the last.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "model/memory/stage_tensors.h"
#include "model/program/program.h"
#include "real/executor/device.h"
#include "real/executor/step/buffer_pool.h"

namespace plumbline::real {

class Activations {
 public:
  // The pool may serve several stages; it must outlive this.
  Activations(BufferPool& pool, const model::StepProgram& program, std::int32_t stage_kind);

  // Returns the buffer of tensor `id` of the block at a position of the stage, for a kernel on `stream`. `key` is that
  // of the micro-batch, `forward` selects the side of the slot.
  Buffer* find(std::uint16_t position, model::TensorId id, std::int64_t key, bool forward, model::Stream stream);

  const model::StageTensors& tensors() const { return tensors_; }
  bool is_temporary(std::uint32_t index) const { return !per_micro_batch(index); }
  // Call it when the last kernel of the slot that uses the tensor has been launched; `only_user` as in BufferPool.
  void end_temporary(std::uint32_t index, bool forward, std::optional<model::Stream> only_user);

  // Return the buffers that are sent to or received from the previous and the next stage.
  Buffer* input(std::int64_t key, model::Stream stream) { return find(0, first().input, key, true, stream); }
  Buffer* output(std::int64_t key, model::Stream stream) {
    return find(last_position(), last().output, key, true, stream);
  }
  Buffer* output_gradient(std::int64_t key, model::Stream stream) {
    return find(last_position(), last().output_gradient, key, false, stream);
  }
  Buffer* input_gradient(std::int64_t key, model::Stream stream) {
    return find(0, first().input_gradient, key, false, stream);
  }

  // Call these when the slot with this phase of the micro-batch has been launched; both gradients for a full backward.
  void end_forward(std::int64_t key);
  void end_input_gradient(std::int64_t key);
  void end_weight_gradient(std::int64_t key);
  // Call these when the tensor's message has been launched, which ends with the event.
  void sent_output(std::int64_t key, Event event);
  void sent_input_gradient(std::int64_t key, Event event);

 private:
  struct Held {
    BufferPointer buffer;
    const model::Tensor* tensor = nullptr;
  };
  const model::Graph& first() const { return graph(0); }
  const model::Graph& last() const { return graph(last_position()); }
  const model::Graph& graph(std::uint16_t position) const;
  std::uint16_t last_position() const { return static_cast<std::uint16_t>(blocks_.size() - 1); }
  bool per_micro_batch(std::uint32_t index) const;
  void release(std::uint32_t index, std::int64_t key, std::optional<Event> busy_until);
  void release_kept(model::Lifetime lifetime, std::int64_t key);
  void sent(std::uint32_t index, std::int64_t key, Event event);

  BufferPool& pool_;
  const model::StepProgram& program_;
  std::vector<std::uint16_t> blocks_;
  model::StageTensors tensors_;
  std::uint32_t input_ = 0, output_gradient_ = 0;
  std::set<std::uint32_t> retained_;  // losses: read at the end of the step
  std::map<std::pair<std::uint32_t, std::int64_t>, Held> in_flight_;
  std::map<std::pair<std::uint32_t, bool>, Held> temporary_;
};

}  // namespace plumbline::real
