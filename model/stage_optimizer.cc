#include "model/stage_optimizer.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace plumbline::model {

namespace {

// Parameters of one number format and one group of ranks are updated together.
using ParameterClass = std::pair<bool, DataType>;  // expert, stored type

std::map<ParameterClass, double> owned_elements(const std::vector<Graph>& blocks, const StageKind& stage) {
  std::map<ParameterClass, double> elements;
  for (std::uint16_t block : stage.blocks)
    for (const Tensor& tensor : blocks[block].tensors)
      if (tensor.role == Role::parameter && !tensor.shared) elements[{tensor.expert, tensor.type}] += tensor.elements();
  return elements;
}

class OptimizerWriter {
 public:
  OptimizerWriter(const Plan& plan, Graph& graph) : plan_(plan), graph_(graph) {}

  void write(const std::string& name, double elements, DataType stored, std::int64_t ranks, std::int64_t stride) {
    const bool sharded = plan_.parallelism.zero_stage >= 1;
    const auto whole = static_cast<std::int64_t>(elements);
    const auto shard = sharded ? static_cast<std::int64_t>(std::ceil(elements / static_cast<double>(ranks))) : whole;
    const CollectiveAttributes group{ranks, stride};
    const TensorId gradient = add("d_" + name, whole, activation_type(plan_.precision.gradients), Role::gradient);
    const TensorId reduced =
        add("reduced_d_" + name, shard, activation_type(plan_.precision.gradients), Role::activation);
    emit(sharded ? OperatorKind::reduce_scatter : OperatorKind::all_reduce, "reduce_" + name, {gradient}, {reduced},
         group);

    const DataType moment = activation_type(plan_.precision.optimizer_moments);
    const TensorId master =
        add("master_" + name, shard, activation_type(plan_.precision.master_weights), Role::gradient);
    const TensorId first = add("first_moment_" + name, shard, moment, Role::gradient);
    const TensorId second = add("second_moment_" + name, shard, moment, Role::gradient);
    const TensorId updated = add("updated_" + name, shard, stored, Role::activation);
    emit(OperatorKind::adamw, "adamw_" + name, {reduced}, {updated, master, first, second}, AdamwAttributes{});
    if (!sharded) return;
    const TensorId parameter = add(name, whole, stored, Role::parameter);
    emit(OperatorKind::all_gather, "gather_" + name, {updated}, {parameter}, group);
  }

 private:
  TensorId add(std::string name, std::int64_t elements, DataType type, Role role) {
    graph_.tensors.push_back({.name = std::move(name), .shape = {{elements}}, .type = type, .role = role});
    return static_cast<TensorId>(graph_.tensors.size() - 1);
  }

  void emit(OperatorKind kind, std::string name, std::vector<TensorId> reads, std::vector<TensorId> writes,
            Attributes attributes) {
    graph_.operators.push_back({.kind = kind,
                                .name = std::move(name),
                                .phase = Phase::W,
                                .section = Section::optimizer,
                                .reads = std::move(reads),
                                .writes = std::move(writes),
                                .attributes = attributes});
  }

  const Plan& plan_;
  Graph& graph_;
};

}  // namespace

Graph make_stage_optimizer(const Plan& plan, const Layout& layout, const std::vector<Graph>& blocks,
                           const StageKind& stage) {
  Graph graph;
  graph.name = "optimizer";
  OptimizerWriter writer(plan, graph);
  for (const auto& [group, elements] : owned_elements(blocks, stage)) {
    const auto& [expert, type] = group;
    const std::string name = std::string(expert ? "experts_" : "dense_") + std::string(to_string(type));
    writer.write(name, elements, type, expert ? layout.expert_group : layout.dense_group,
                 expert ? layout.expert_stride : layout.dense_stride);
  }
  return graph;
}

}  // namespace plumbline::model
