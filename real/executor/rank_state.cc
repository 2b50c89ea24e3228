#include "real/executor/rank_state.h"

#include <numeric>

#include "model/cost/operator_class.h"

namespace plumbline::real {

Group RankState::expert_group() const {
  const model::RankGroup group = model::exchange_group(input.plan->parallelism);
  return strided_group(place, {place.pipeline}, group.ranks, group.stride);
}

Group RankState::world() const {
  Group group;
  group.ranks.resize(static_cast<std::size_t>(input.plan->cluster.gpus));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  group.position = place.world;
  return group;
}

void RankState::launch_collective(model::Stream stream, const Kernel& kernel, std::int32_t stage) {
  const auto group = [&] {
    if (is_exchange(kernel.op->kind)) return expert_group();
    const auto& attributes = std::get<model::CollectiveAttributes>(kernel.op->attributes);
    return strided_group(place, stages.at(stage).holders, attributes.ranks, attributes.stride);
  };
  communicator().launch(stream, group(), kernel);
}

}  // namespace plumbline::real
