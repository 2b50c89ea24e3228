// What a rank holds of one stage from step to step: parameters and gradients, each unit in a row so that it can be
// reduced and gathered as one, optimizer states, routing biases. Every tensor of a block is a view into its unit.
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

class StageState {
 public:
  struct Unit {
    BufferPointer parameters, gradients;  // all elements, filled up to whole shards
    std::int64_t elements = 0;            // without the filling
    std::int64_t whole = 0;               // first ones, of parameters that every tensor-parallel rank holds whole
    model::ShardGroup group;
    bool expert = false;
  };

  // Memory only: zeros. `shard` of each unit is this rank's position among those that share it out.
  StageState(Device& device, const model::Plan& plan, const model::Layout& layout, const model::StepProgram& program,
             std::int32_t stage);

  std::int32_t stage() const { return stage_; }
  const model::Graph& block(std::uint16_t position) const;
  std::size_t positions() const { return blocks_.size(); }
  std::int64_t layer(std::uint16_t position) const;

  // A parameter, a gradient or a routing bias of a block; nullptr when another stage of the rank owns it.
  Buffer* find(std::uint16_t position, model::TensorId id) const;
  // The view that owns a parameter's (or gradient's, "d_") name here, for who shares it; nullptr: none.
  Buffer* owner(const std::string& name) const;
  std::vector<Unit>& units() { return units_; }
  const model::ShardUnit& unit(std::size_t index) const;

  // A tensor of the stage's optimizer graph.
  const model::Graph& optimizer() const;
  Buffer* optimizer_tensor(model::TensorId id) const { return optimizer_.at(id); }

  // Master weights and sharded parameters take what the parameters hold now. Device idle.
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
  std::vector<BufferPointer> memory_;  // views, optimizer states and what reductions write
  std::map<std::pair<std::uint16_t, model::TensorId>, Buffer*> tensors_;
  std::map<std::string, Buffer*> owners_;
  std::map<model::TensorId, Buffer*> optimizer_;
};

}  // namespace plumbline::real
