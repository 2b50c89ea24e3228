#include "model/memory/memory_reserve.h"

#include <algorithm>
#include <vector>

namespace plumbline::model {

namespace {

int groups_of_ranks(const Plan& plan, const Layout& layout) {
  const auto& degrees = plan.parallelism;
  const bool experts = layout.experts_per_rank > 0 && layout.expert_group != layout.dense_group;
  std::vector<RankGroup> all = layer_groups(degrees);
  all.insert(all.end(), {{degrees.pipeline, 1}, {layout.dense_group, 1}, {experts ? layout.expert_group : 1, 1}});
  const auto groups = std::ranges::count_if(all, [](const RankGroup& group) { return group.ranks > 1; });
  return static_cast<int>(groups);
}

}  // namespace

Bytes communication_buffers(const Plan& plan, const Layout& layout, const Device& device, Bytes gradients) {
  Bytes sum = device.reserve.communicator * groups_of_ranks(plan, layout);
  if (plan.parallelism.expert > 1) sum += device.reserve.exchange;
  constexpr double buckets = 2;
  if (layout.dense_group > 1 || layout.expert_group > 1)
    sum += std::min(buckets * Bytes(plan.overlap.gradient_bucket_bytes), gradients);
  return sum;
}

Bytes runtime_memory(const Device& device) {
  constexpr double product_streams = 2;
  return device.reserve.context + product_streams * device.reserve.matmul_workspace;
}

Bytes fragmentation(const Device& device, Bytes dynamic) { return dynamic * device.reserve.fragmentation; }

}  // namespace plumbline::model
