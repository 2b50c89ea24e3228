#include "real/executor/step/stage_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/plan/plan.h"

namespace plumbline::real {

using model::Tensor;
using model::TensorId;
using Place = model::ShardUnit::Place;

namespace {

std::optional<TensorId> gradient_of(const model::Graph& graph, const std::string& parameter) {
  for (TensorId id = 0; id < graph.tensors.size(); ++id)
    if (graph.tensors[id].role == model::Role::gradient && graph.tensors[id].name == "d_" + parameter) return id;
  return std::nullopt;
}

std::int64_t elements_of(const Tensor& tensor) { return std::llround(tensor.elements()); }

bool is_whole(const Tensor& tensor) { return !tensor.divided && !tensor.expert; }

}  // namespace

std::vector<Place> owned_parameters(const model::StepProgram& program, std::int32_t stage, std::size_t unit) {
  const model::Stage& owner = program.stages[static_cast<std::size_t>(stage)];
  const auto tensor = [&](const Place& place) -> const Tensor& {
    const auto& blocks = program.stage_kinds[static_cast<std::size_t>(owner.kind)].blocks;
    return program.blocks[blocks[place.block_of_stage]].tensor(place.tensor);
  };
  std::vector<Place> owned = program.stage_units[static_cast<std::size_t>(stage)][unit].parameters;
  std::erase_if(owned, [&](const Place& place) { return tensor(place).shared; });
  std::ranges::stable_partition(owned, [&](const Place& place) { return is_whole(tensor(place)); });
  return owned;
}

StageState::StageState(Device& device, const model::Plan& plan, const model::Layout& layout,
                       const model::StepProgram& program, std::int32_t stage)
    : device_(device), program_(program), stage_(stage) {
  const auto kind = static_cast<std::size_t>(program.stages[static_cast<std::size_t>(stage)].kind);
  blocks_ = program.stage_kinds[kind].blocks;
  units_.resize(program.stage_units[static_cast<std::size_t>(stage)].size());
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    lay_out(unit, plan, layout);
    bind_optimizer(unit, plan);
  }
  for (std::size_t unit = 0; unit < units_.size(); ++unit) borrow(unit);
  for (std::uint16_t position = 0; position < blocks_.size(); ++position)
    for (TensorId id = 0; id < block(position).tensors.size(); ++id) {
      const Tensor& tensor = block(position).tensor(id);
      if (tensor.role != model::Role::constant || tensor.name != "router_bias") continue;
      memory_.push_back(device_.allocate(tensor));
      tensors_[{position, id}] = memory_.back().get();
    }
}

const model::Graph& StageState::block(std::uint16_t position) const { return program_.blocks[blocks_[position]]; }

std::int64_t StageState::layer(std::uint16_t position) const {
  return program_.stages[static_cast<std::size_t>(stage_)].layers[position];
}

const model::ShardUnit& StageState::unit(std::size_t index) const {
  return program_.stage_units[static_cast<std::size_t>(stage_)][index];
}

const model::Graph& StageState::optimizer() const {
  return program_.stage_optimizers[static_cast<std::size_t>(stage_)];
}

Buffer* StageState::find(std::uint16_t position, TensorId id) const {
  const auto found = tensors_.find({position, id});
  return found == tensors_.end() ? nullptr : found->second;
}

Buffer* StageState::owner(const std::string& name) const {
  const auto found = owners_.find(name);
  return found == owners_.end() ? nullptr : found->second;
}

void StageState::lay_out(std::size_t index, const model::Plan& plan, const model::Layout& layout) {
  Unit& unit = units_[index];
  const std::vector<Place> owned = owned_parameters(program_, stage_, index);
  const Tensor first = block(owned.front().block_of_stage).tensor(owned.front().tensor);
  unit.expert = first.expert;
  unit.group = model::shard_group(plan, layout, unit.expert);
  for (const Place& place : owned) {
    const Tensor& parameter = block(place.block_of_stage).tensor(place.tensor);
    unit.elements += elements_of(parameter);
    if (is_whole(parameter)) unit.whole += elements_of(parameter);
  }
  const std::int64_t filled = unit.shard() * unit.group.shards;
  const model::DataType accumulated = model::activation_type(plan.precision.gradients);
  unit.parameters = device_.allocate({.name = "parameters", .shape = {{filled}}, .type = first.type});
  unit.gradients = device_.allocate({.name = "gradients", .shape = {{filled}}, .type = accumulated});
  add_views(index, owned);
}

void StageState::add_views(std::size_t index, const std::vector<Place>& places) {
  Unit& unit = units_[index];
  std::int64_t next = 0;
  for (const auto& [position, id] : places) {
    const model::Graph& graph = block(position);
    const Tensor& parameter = graph.tensor(id);
    memory_.push_back(device_.view(*unit.parameters, next, parameter));
    tensors_[{position, id}] = owners_[parameter.name] = memory_.back().get();
    if (const auto gradient = gradient_of(graph, parameter.name)) {
      memory_.push_back(device_.view(*unit.gradients, next, graph.tensor(*gradient)));
      tensors_[{position, *gradient}] = owners_["d_" + parameter.name] = memory_.back().get();
    }
    next += elements_of(parameter);
  }
}

// Gives blocks that share a parameter of this stage the owner's memory.
void StageState::borrow(std::size_t index) {
  for (const auto* places : {&unit(index).parameters, &unit(index).gradients})
    for (const auto& [position, id] : *places)
      if (find(position, id) == nullptr) tensors_[{position, id}] = owner(block(position).tensor(id).name);
}

Buffer* StageState::own(TensorId id, std::int64_t elements) {
  Tensor tensor = optimizer().tensor(id);
  tensor.shape = {{elements}};
  memory_.push_back(device_.allocate(tensor));
  return optimizer_[id] = memory_.back().get();
}

// Binds the tensors of reductions: all-reduces work in place; inputs of reduce-scatters are padded to whole shards.
void StageState::bind_reduction(std::size_t index) {
  Unit& unit = units_[index];
  Buffer* whole = unit.gradients.get();  // after a cast: the buffer in the format of the collective
  for (const std::uint16_t i : this->unit(index).reduce) {
    const model::Operator& op = optimizer().operators[i];
    const TensorId read = op.reads[0], written = op.writes[0];
    if (optimizer().tensor(read).role == model::Role::gradient && !optimizer_.contains(read)) {
      const std::int64_t elements = elements_of(optimizer().tensor(read));
      if (elements == unit.elements) {
        optimizer_[read] = whole;
      } else {
        memory_.push_back(device_.view(*whole, 0, optimizer().tensor(read)));
        optimizer_[read] = memory_.back().get();
      }
    }
    if (op.kind == model::OperatorKind::cast)
      whole = own(written, unit.shard() * unit.group.shards);
    else if (op.kind == model::OperatorKind::reduce_scatter)
      own(written, unit.shard());
    else
      optimizer_[written] = optimizer_[read];
  }
}

void StageState::bind_optimizer(std::size_t index, const model::Plan& plan) {
  bind_reduction(index);
  Unit& unit = units_[index];
  const bool sharded = plan.parallelism.zero_stage >= 1;
  for (const std::uint16_t i : this->unit(index).update) {
    const model::Operator& op = optimizer().operators[i];
    if (!optimizer_.contains(op.reads[0])) own(op.reads[0], unit.shard());  // the unscaled gradient
    for (const TensorId written : op.writes) own(written, unit.shard());
    if (!sharded) optimizer_[op.writes[0]] = unit.parameters.get();
  }
  for (const std::uint16_t i : this->unit(index).gather)
    optimizer_[optimizer().operators[i].writes[0]] = unit.parameters.get();
}

void StageState::copy_parameters_to_shards(const std::vector<std::int32_t>& shard_of_unit) {
  for (std::size_t index = 0; index < units_.size(); ++index) {
    Unit& unit = units_[index];
    const std::int64_t shard = unit.shard();
    const auto take_own = [&, first = shard_of_unit[index] * shard](TensorId id) {
      device_.copy(*unit.parameters, first, shard, *optimizer_tensor(id));
    };
    for (const std::uint16_t i : this->unit(index).update) {
      const model::Operator& op = optimizer().operators[i];
      constexpr std::size_t with_master = 4;
      if (op.writes.size() == with_master) take_own(op.writes[1]);
      if (optimizer_tensor(op.writes[0]) != unit.parameters.get()) take_own(op.writes[0]);
    }
  }
}

std::vector<StatePiece> StageState::pieces() const {
  std::vector<StatePiece> result;
  for (std::size_t index = 0; index < units_.size(); ++index) {
    const std::string prefix = fmt::format("stage{}/unit{}", stage_, index);
    result.push_back({prefix + "/parameters", units_[index].parameters.get()});
    for (const std::uint16_t i : unit(index).update)
      for (const TensorId written : optimizer().operators[i].writes)
        if (optimizer_tensor(written) != units_[index].parameters.get())
          result.push_back({fmt::format("{}/{}", prefix, optimizer().tensor(written).name), optimizer_tensor(written)});
  }
  for (const auto& [place, buffer] : tensors_)
    if (block(place.first).tensor(place.second).role == model::Role::constant)
      result.push_back({fmt::format("stage{}/block{}/router_bias", stage_, place.first), buffer});
  return result;
}

}  // namespace plumbline::real
