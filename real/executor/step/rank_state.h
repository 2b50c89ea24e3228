// The state that the parts of a rank's executor share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/memory/slot_memory.h"
#include "model/plan/layout.h"
#include "model/program/program.h"
#include "model/result/timeline.h"
#include "model/schedule/schedule.h"
#include "real/executor/communicator.h"
#include "real/executor/device.h"
#include "real/executor/step/buffer_pool.h"
#include "real/executor/step/stage_state.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

namespace plumbline::real {

// A rank's position in each parallel dimension. World ranks count the ranks of a pipeline stage first (tensor, then
// data), then pipeline ranks.
struct RankPlace {
  std::int32_t world = 0;
  std::int32_t pipeline = 0;   // pipeline rank
  std::int32_t index = 0;      // among the ranks of its stage
  std::int32_t tensor = 0;     // position in its tensor-parallel group
  std::int32_t data = 0;       // data-parallel rank
  std::int32_t per_stage = 1;  // ranks of a stage
};

RankPlace rank_place(const model::Plan& plan, std::int32_t world_rank);

// Returns the pipeline ranks that hold a stage, ascending: one, or two under bidirectional schedules.
std::vector<std::int32_t> holders(const model::Schedule& schedule, std::int32_t stage);

// Returns the group of `ranks` ranks at distance `stride` to which `place` belongs. Where two pipeline ranks hold a
// stage, the ranks of the lower one come first.
Group strided_group(const RankPlace& place, const std::vector<std::int32_t>& holders, std::int64_t ranks,
                    std::int64_t stride);

// Identifies a launched kernel or message.
struct Label {
  std::int32_t slot = -1;     // of the rank's program; -1: outside of slots
  std::int32_t segment = -1;  // of the slot's template; -1: a message, or outside of slots
  std::string name;           // of the operator; "send activation", "reduce gradients", ...
  std::int32_t micro_batch = -1;
  std::string_view breakdown = {};  // its class of operators, where it is a kernel of a slot
};

// The labels of a step, by the number in a KernelRecord.
class LabelBook {
 public:
  std::uint32_t add(Label label) {
    labels_.push_back(std::move(label));
    return static_cast<std::uint32_t>(labels_.size() - 1);
  }
  const Label& operator[](std::uint32_t index) const { return labels_[index]; }
  void clear() { labels_.clear(); }

 private:
  std::vector<Label> labels_;
};

// The inputs of a rank's step. The layout and the program are those of the plan; all must outlive the executor.
struct StepInput {
  const model::Plan* plan = nullptr;
  const model::Architecture* architecture = nullptr;
  const model::Layout* layout = nullptr;
  const model::StepProgram* program = nullptr;
  Device* device = nullptr;
  Communicator* communicator = nullptr;
};

// The activations of one stage on one rank. Tensors that live from one phase of a micro-batch to another, or that cross
// to another stage, have a buffer for every micro-batch in flight. All others are temporary: each side (forward or
// backward) of a slot has them from the first kernel that uses them to the last.
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

struct LocalStage {
  std::unique_ptr<StageState> state;
  std::unique_ptr<Activations> activations;
  std::vector<std::int32_t> holders;  // pipeline ranks
};

struct RankState {
  StepInput input;
  RankPlace place;
  std::unique_ptr<BufferPool> pool;           // of all stages' activations
  std::map<std::int32_t, LocalStage> stages;  // by stage
  LabelBook labels;
  StepNumbers numbers;

  const model::StepProgram& program() const { return *input.program; }
  Device& device() const { return *input.device; }
  Communicator& communicator() const { return *input.communicator; }
  const std::vector<model::ScheduleOp>& ops() const {
    return program().schedule.ranks[static_cast<std::size_t>(place.pipeline)];
  }

  // Returns a number that identifies a micro-batch within its stage.
  std::int64_t key(std::int32_t direction, std::int32_t micro_batch) const {
    return std::int64_t{direction} * program().schedule.shape.micro_batches + micro_batch;
  }

  // Launches a collective of the graph on the group of its operator among the ranks of `stage`.
  void launch_collective(model::Stream stream, const Kernel& kernel, std::int32_t stage);
  // Returns the expert-parallel group: the ranks among which tokens are dispatched.
  Group expert_group() const;
  Group world() const;
};

}  // namespace plumbline::real
