#include "real/executor/rank_state.h"

#include <numeric>

namespace plumbline::real {

using model::OperatorKind;

bool is_collective(OperatorKind kind) {
  return kind == OperatorKind::all_reduce || kind == OperatorKind::reduce_scatter || kind == OperatorKind::all_gather;
}

bool is_exchange(OperatorKind kind) {
  return kind == OperatorKind::dispatch || kind == OperatorKind::dispatch_grad || kind == OperatorKind::combine ||
         kind == OperatorKind::combine_grad;
}

Group RankState::expert_group() const {
  const auto& degrees = input.plan->parallelism;
  return strided_group(place, {place.pipeline}, degrees.expert, degrees.expert_tensor);
}

Group RankState::world() const {
  Group group;
  group.ranks.resize(static_cast<std::size_t>(input.plan->cluster.gpus));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  group.position = place.world;
  return group;
}

void RankState::launch_collective(model::Stream stream, const Kernel& kernel, std::int32_t stage) {
  Communicator& c = communicator();
  switch (kernel.op->kind) {
    case OperatorKind::dispatch:
      return c.dispatch(stream, expert_group(), kernel);
    case OperatorKind::dispatch_grad:
      return c.dispatch_grad(stream, expert_group(), kernel);
    case OperatorKind::combine:
      return c.combine(stream, expert_group(), kernel);
    case OperatorKind::combine_grad:
      return c.combine_grad(stream, expert_group(), kernel);
    default:
      break;
  }
  const auto& attributes = std::get<model::CollectiveAttributes>(kernel.op->attributes);
  const Group group = strided_group(place, stages.at(stage).holders, attributes.ranks, attributes.stride);
  if (kernel.op->kind == OperatorKind::all_reduce) return c.all_reduce(stream, group, kernel);
  if (kernel.op->kind == OperatorKind::reduce_scatter) return c.reduce_scatter(stream, group, kernel);
  c.all_gather(stream, group, kernel);
}

}  // namespace plumbline::real
