#include "real/executor/rank_state.h"

#include <cassert>
#include <numeric>

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
  Communicator& c = communicator();
  const auto named = [&] {
    const auto& attributes = std::get<model::CollectiveAttributes>(kernel.op->attributes);
    return strided_group(place, stages.at(stage).holders, attributes.ranks, attributes.stride);
  };
  switch (kernel.op->kind) {
#define OPERATOR(kind, ...)       \
  case model::OperatorKind::kind: \
    break;
#define EXCHANGE_OPERATOR(kind, ...) \
  case model::OperatorKind::kind:    \
    return c.kind(stream, expert_group(), kernel);
#define COLLECTIVE_OPERATOR(kind, ...) \
  case model::OperatorKind::kind:      \
    return c.kind(stream, named(), kernel);
#include "model/graph/operators.def"
  }
  assert(false && "not a communication");
}

}  // namespace plumbline::real
