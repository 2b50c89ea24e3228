#include "real/executor/step/rank_state.h"

#include <algorithm>
#include <numeric>

#include "model/cost/operator_class.h"

namespace plumbline::real {

RankPlace rank_place(const model::Plan& plan, std::int32_t world_rank) {
  RankPlace place;
  const auto tensor = static_cast<std::int32_t>(plan.parallelism.tensor);
  place.world = world_rank;
  place.per_stage = static_cast<std::int32_t>(plan.cluster.gpus / plan.parallelism.pipeline);
  place.pipeline = world_rank / place.per_stage;
  place.index = world_rank % place.per_stage;
  place.tensor = place.index % tensor;
  place.data = place.index / tensor;
  return place;
}

std::vector<std::int32_t> holders(const model::Schedule& schedule, std::int32_t stage) {
  std::vector<std::int32_t> ranks;
  for (std::int32_t direction = 0; direction < schedule.directions; ++direction)
    ranks.push_back(schedule.rank_of(direction, stage));
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  return ranks;
}

Group strided_group(const RankPlace& place, const std::vector<std::int32_t>& holders, std::int64_t ranks,
                    std::int64_t stride) {
  const auto holder = std::ranges::find(holders, place.pipeline) - holders.begin();
  const std::int64_t own = place.index + holder * place.per_stage;
  Group group;
  group.position = static_cast<std::int32_t>(own / stride % ranks);
  for (std::int64_t i = 0; i < ranks; ++i) {
    const std::int64_t member = own + (i - group.position) * stride;
    const std::int32_t pipeline = holders[static_cast<std::size_t>(member / place.per_stage)];
    group.ranks.push_back(pipeline * place.per_stage + static_cast<std::int32_t>(member % place.per_stage));
  }
  return group;
}

Group RankState::expert_group() const {
  const model::RankGroup group = model::expert_group(input.plan->parallelism);
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
    if (is_all_to_all(kernel.op->kind)) return expert_group();
    const auto& attributes = std::get<model::CollectiveAttributes>(kernel.op->attributes);
    return strided_group(place, stages.at(stage).holders, attributes.ranks, attributes.stride);
  };
  communicator().launch(stream, group(), kernel);
}

}  // namespace plumbline::real
