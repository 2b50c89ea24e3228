#include "model/memory/memory_reserve.h"

#include <algorithm>
#include <vector>

namespace plumbline::model {

namespace {

int groups_of_ranks(const Plan& plan, const Layout& layout) {
  const auto& degrees = plan.parallelism;
  const bool experts = layout.experts_per_rank > 0 && layout.expert_group != layout.dense_group;
  const auto groups =
      std::ranges::count_if(layer_groups(degrees), [](const RankGroup& group) { return group.ranks > 1; });
  return static_cast<int>(groups) + (degrees.pipeline > 1) + (layout.dense_group > 1) +
         (experts && layout.expert_group > 1);
}

Bytes communication_buffers(const Plan& plan, const Layout& layout, const Device& device, Bytes gradients) {
  Bytes sum = device.reserve.communicator * groups_of_ranks(plan, layout);
  if (plan.parallelism.expert > 1) sum += device.reserve.all_to_all;
  constexpr double buckets = 2;
  if (layout.dense_group > 1 || layout.expert_group > 1)
    sum += std::min(buckets * Bytes(plan.overlap.gradient_bucket_bytes), gradients);
  return sum;
}

}  // namespace

RankPeak rank_peak(const Plan& plan, const Layout& layout, const Device& device, Bytes state, Bytes gradients,
                   Bytes dynamic) {
  constexpr double gemm_streams = 2;
  const Bytes runtime = device.reserve.context + gemm_streams * device.reserve.matmul_workspace;
  return {state, dynamic, communication_buffers(plan, layout, device, gradients),
          runtime + dynamic * device.reserve.fragmentation};
}

Bytes fullest_moment(const ScheduleTable::Rank& rank, const std::vector<ChunkBytes>& chunks,
                     const std::vector<Bytes>& slots, Bytes message) {
  Bytes most;
  for (const ScheduleTable::Moment& moment : rank.moments) {
    Bytes sum = message * static_cast<double>(moment.messages);
    for (std::size_t i = 0; i < rank.stages.size(); ++i) {
      const ChunkBytes& chunk = chunks[static_cast<std::size_t>(rank.stages[i])];
      sum += chunk.after_forward * static_cast<double>(moment.forwards[i]);
      sum += chunk.for_weights * static_cast<double>(moment.weights[i]);
    }
    if (moment.slot_class >= 0) sum += slots[static_cast<std::size_t>(moment.slot_class)];
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace plumbline::model
