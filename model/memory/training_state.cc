#include "model/memory/training_state.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "model/plan/plan.h"
#include "model/program/stage_optimizer.h"

namespace plumbline::model {
namespace {

struct Whole {  // the unsharded bytes of a unit
  Bytes parameters, gradients;
};
using StageUnits = std::vector<std::vector<Whole>>;  // [stage of the rank][unit]

// Returns the bytes of master weight and moments of a parameter, of which Muon has one.
double optimizer_bytes(const Plan& plan, DataType stored, bool muon) {
  const double master =
      has_master_weights(plan, stored) ? bytes_per_element(activation_type(plan.precision.master_weights)) : 0;
  return master + (muon ? 1 : 2) * bytes_per_element(activation_type(plan.precision.optimizer_moments));
}

class StateCounter {
 public:
  StateCounter(const Plan& plan, const Layout& layout)
      : plan_(plan),
        zero_(plan.parallelism.zero_stage),
        copies_(plan.optimizer.gradient_copy == "fp32"),
        expert_shards_(static_cast<double>(shard_group(plan, layout, true).shards)),
        dense_shards_(static_cast<double>(shard_group(plan, layout, false).shards)),
        expert_replicas_(static_cast<double>(shard_group(plan, layout, true).replicas)),
        dense_replicas_(static_cast<double>(shard_group(plan, layout, false).replicas)) {}

  void add(const Tensor& tensor, double times) {
    StateBytes& bytes = tensor.expert ? state_.experts : state_.others;
    const double shards = tensor.expert ? expert_shards_ : dense_shards_;
    if (tensor.role == Role::gradient) {
      const Bytes copy(tensor.elements() * (copies_ ? bytes_per_element(DataType::fp32) : 0));
      bytes.gradients += times * (tensor.bytes() + copy) / (zero_ >= 2 ? shards : 1);
      if (plan_.offload.optimizer) state_.counts.on_host += times * tensor.bytes() / shards;
      return;
    }
    if (!tensor.frozen) count(tensor, times, shards);
    bytes.parameters += times * tensor.bytes() / (zero_ >= 3 ? shards : 1);
    bytes.parameters += times * Bytes(tensor.copies * tensor.elements() * bytes_per_element(operand_type(tensor)));
    if (tensor.frozen) return;
    const Bytes states =
        times * Bytes(tensor.elements() * optimizer_bytes(plan_, tensor.type, updated_by_muon(plan_, tensor)) / shards);
    (plan_.offload.optimizer ? state_.counts.on_host : bytes.optimizer) += states;
    if (plan_.optimizer.ema == "host") state_.counts.on_host += times * average_bytes(tensor) / shards;
  }

  // Adds the tensors that exist for a while only, in addition to the shards.
  void add_whole(const StageUnits& stages) {
    std::vector<Whole> units, whole_stages;
    for (const std::vector<Whole>& stage : stages) {
      units.insert(units.end(), stage.begin(), stage.end());
      Whole& sum = whole_stages.emplace_back();
      for (const Whole& unit : stage) sum.gradients += unit.gradients;
    }
    const auto all = static_cast<std::size_t>(units.size());
    const std::size_t gathered =
        plan_.parallelism.reshard_after_forward ? static_cast<std::size_t>(plan_.overlap.prefetch) + 1 : all;
    if (zero_ >= 3)
      state_.gathered_parameters = std::max(state_.gathered_parameters, most(units, gathered, &Whole::parameters));
    // A unit is written while the one before is reduced. When a stage's run begins, what the run before it needed is
    // freed, which is more than the gradients that are reduced.
    const Bytes gradients = plan_.parallelism.reduce_after == "run" ? most(whole_stages, 1, &Whole::gradients)
                                                                    : most(units, 2, &Whole::gradients);
    if (zero_ >= 2) most_gradients_ = std::max(most_gradients_, gradients);
    const double held = bytes_per_element(activation_type(plan_.precision.gradients));
    const double wire =
        bytes_per_element(activation_type(plan_.precision.gradient_reduce.value_or(plan_.precision.gradients)));
    if (wire != held) most_copied_ = std::max(most_copied_, most(units, 2, &Whole::gradients) * (wire / held));
  }

  TrainingState state() {
    state_.others.parameters += state_.gathered_parameters;
    state_.others.gradients += most_gradients_ + most_copied_;
    return state_;
  }

 private:
  void count(const Tensor& tensor, double times, double shards) {
    ParameterCounts& counts = state_.counts;
    counts.held += times * tensor.elements() / (zero_ >= 3 ? shards : 1);
    counts.updated += times * tensor.elements() / shards;
    if (zero_ >= 3 && has_master_weights(plan_, tensor.type)) counts.shards += times * tensor.bytes() / shards;
    std::vector<std::int64_t> shape;
    double elements = 1;
    for (const Dimension& dimension : tensor.shape) shape.push_back(dimension.size);
    if (tensor.expert && shape.size() > 1) shape.erase(shape.begin());
    for (const std::int64_t size : shape) elements *= static_cast<double>(size);
    counts.largest = std::max(counts.largest, elements);
    const bool table = tensor.name == "embedding" || tensor.name == "positions";
    if (shape.size() >= 2 && !table && shapes_.insert(std::move(shape)).second) counts.shapes += elements;
  }

  // Returns the bytes of the average of a tensor, which its replicas divide, in the format of the master weights.
  Bytes average_bytes(const Tensor& tensor) const {
    const DataType type =
        has_master_weights(plan_, tensor.type) ? activation_type(plan_.precision.master_weights) : tensor.type;
    return Bytes(tensor.elements() * bytes_per_element(type) / (tensor.expert ? expert_replicas_ : dense_replicas_));
  }

  // Returns the format in which GEMMs read a weight.
  DataType operand_type(const Tensor& weight) const {
    const auto& precision = plan_.precision;
    return activation_type(weight.expert ? precision.experts.value_or(precision.gemm) : precision.gemm);
  }

  // Returns the largest sum over `count` consecutive units.
  static Bytes most(const std::vector<Whole>& units, std::size_t count, Bytes Whole::*part) {
    Bytes largest;
    for (std::size_t first = 0; first < units.size(); ++first) {
      Bytes sum;
      for (std::size_t i = first; i < std::min(units.size(), first + count); ++i) sum += units[i].*part;
      largest = std::max(largest, sum);
    }
    return largest;
  }

  const Plan& plan_;
  std::int64_t zero_;
  bool copies_;
  TrainingState state_;
  std::set<std::vector<std::int64_t>> shapes_;
  Bytes most_gradients_, most_copied_;
  double expert_shards_, dense_shards_, expert_replicas_, dense_replicas_;
};

StageUnits whole_units(const std::vector<Graph>& blocks, const std::vector<StageParameters>& stages) {
  StageUnits units;
  for (const StageParameters& stage : stages) {
    if (stage.units == nullptr) continue;
    std::vector<Whole>& whole = units.emplace_back();
    const auto bytes = [&](const std::vector<ShardUnit::Place>& places) {
      Bytes sum;
      for (const auto& place : places) {
        const Tensor& tensor = blocks[stage.kind->blocks[place.block_of_stage]].tensor(place.tensor);
        if (!tensor.shared) sum += tensor.bytes();
      }
      return sum;
    };
    for (const ShardUnit& unit : *stage.units) whole.push_back({bytes(unit.parameters), bytes(unit.gradients)});
  }
  return units;
}

bool is_state(const Tensor& tensor) { return tensor.role == Role::parameter || tensor.role == Role::gradient; }

}  // namespace

TrainingState training_state(const Plan& plan, const Layout& layout, const StepProgram& program,
                             const std::vector<std::int64_t>& stages) {
  std::vector<StageParameters> parameters;
  for (const std::int64_t stage : stages) {
    const auto index = static_cast<std::size_t>(stage);
    parameters.push_back({&program.stage_kinds[static_cast<std::size_t>(program.stages[index].kind)],
                          program.stage_units.empty() ? nullptr : &program.stage_units[index]});
  }
  return training_state(plan, layout, program.blocks, parameters);
}

TrainingState training_state(const Plan& plan, const Layout& layout, const std::vector<Graph>& blocks,
                             const std::vector<StageParameters>& stages) {
  std::map<std::uint16_t, double> times;  // how often the rank has each block
  for (const StageParameters& stage : stages)
    for (const std::uint16_t block : stage.kind->blocks) ++times[block];
  StateCounter counter(plan, layout);
  std::map<std::pair<std::string_view, bool>, const Tensor*> borrowed;  // a copy is frozen where the policy is not
  for (const auto& [block, count] : times)
    for (const Tensor& tensor : blocks[block].tensors) {
      if (!is_state(tensor)) continue;
      if (tensor.shared)
        borrowed.emplace(std::pair(std::string_view(tensor.name), tensor.frozen), &tensor);
      else
        counter.add(tensor, count);
    }
  if (!borrowed.empty())
    for (const auto& [block, count] : times)
      for (const Tensor& tensor : blocks[block].tensors)
        if (is_state(tensor) && !tensor.shared) borrowed.erase({tensor.name, tensor.frozen});
  for (const auto& [key, tensor] : borrowed) counter.add(*tensor, 1);
  counter.add_whole(whole_units(blocks, stages));
  return counter.state();
}

double state_bytes_per_parameter(const Plan& plan) {
  const DataType stored = weight_type(plan.precision.gemm);
  return bytes_per_element(stored) + optimizer_bytes(plan, stored, plan.optimizer.kind == "muon");
}

}  // namespace plumbline::model
