// The persistent state of one stage on a rank: parameters, gradients, optimizer states, routing biases. The parameters
// and the gradients of a shard unit are contiguous, so that one collective reduces or gathers them; a block's tensors
// are views into its unit.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/plan/layout.h"
#include "model/program/program.h"
#include "real/executor/device.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

// Returns the parameters that a unit of a stage owns, in the order in which its memory holds them: first those that
// every tensor-parallel rank holds whole, so that one collective sums their gradients.
std::vector<model::ShardUnit::Place> owned_parameters(const model::StepProgram& program, std::int32_t stage,
                                                      std::size_t unit);

class StageState {
 public:
  struct Unit {
    BufferPointer parameters, gradients;  // all elements, padded to whole shards
    std::int64_t elements = 0;            // without the padding
    std::int64_t whole = 0;               // leading elements: parameters that every tensor-parallel rank holds whole
    model::ShardGroup group;
    bool expert = false;

    std::int64_t shard() const { return (elements + group.shards - 1) / group.shards; }  // elements of one
  };

  // Allocates the memory, filled with zeros.
  StageState(Device& device, const model::Plan& plan, const model::Layout& layout, const model::StepProgram& program,
             std::int32_t stage);

  std::int32_t stage() const { return stage_; }
  const model::Graph& block(std::uint16_t position) const;
  std::size_t positions() const { return blocks_.size(); }
  std::int64_t layer(std::uint16_t position) const;

  // Returns a parameter, gradient or routing bias of a block; nullptr when another stage of the rank owns it.
  Buffer* find(std::uint16_t position, model::TensorId id) const;
  // Returns the owner's view of a shared parameter, or of its gradient ("d_" + name); nullptr if not in this stage.
  Buffer* owner(const std::string& name) const;
  std::vector<Unit>& units() { return units_; }
  const model::ShardUnit& unit(std::size_t index) const;

  // The stage's optimizer graph, and the buffer of one of its tensors.
  const model::Graph& optimizer() const;
  Buffer* optimizer_tensor(model::TensorId id) const { return optimizer_.at(id); }

  // Copies the parameters to master weights and sharded parameters. Requires an idle device.
  void copy_parameters_to_shards(const std::vector<std::int32_t>& shard_of_unit);
  std::vector<StatePiece> pieces() const;

 private:
  void lay_out(std::size_t unit, const model::Plan& plan, const model::Layout& layout);
  void add_views(std::size_t unit, const std::vector<model::ShardUnit::Place>& places);
  void borrow(std::size_t unit);
  void bind_optimizer(std::size_t unit, const model::Plan& plan);
  void bind_reduction(std::size_t unit);
  Buffer* own(model::TensorId id, std::int64_t elements);

  Device& device_;
  const model::StepProgram& program_;
  std::int32_t stage_;
  std::vector<std::uint16_t> blocks_;
  std::vector<Unit> units_;
  std::vector<BufferPointer> memory_;  // views, optimizer states and outputs of reductions
  std::map<std::pair<std::uint16_t, model::TensorId>, Buffer*> tensors_;
  std::map<std::string, Buffer*> owners_;
  std::map<model::TensorId, Buffer*> optimizer_;
};

}  // namespace plumbline::real
