#include "model/memory/memory_reserve.h"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "model/cost/constants.h"
#include "model/plan/plan.h"

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

bool reduces(const Layout& layout) { return layout.dense_group > 1 || layout.expert_group > 1; }

Bytes communication_buffers(const Plan& plan, const Layout& layout, const MemoryReserve& reserve, Bytes gradients) {
  Bytes sum = reserve.communicator * groups_of_ranks(plan, layout);
  if (plan.parallelism.expert > 1) sum += reserve.all_to_all;
  constexpr double buckets = 2;
  if (reduces(layout) && !reserve.reduction_buffers)
    sum += std::min(buckets * Bytes(plan.overlap.gradient_bucket_bytes), gradients);
  return sum;
}

bool copies_gradients(const Plan& plan) { return plan.optimizer.gradient_copy == "fp32"; }

Bytes separate_gradients(const Plan& plan, const MemoryReserve& reserve, const ParameterCounts& counts) {
  Bytes sum;
  if (reserve.shape_gradients) sum += Bytes(counts.shapes * bytes_per_element(DataType::bf16));
  if (!reserve.separate_gradients) return sum;
  const DataType added = copies_gradients(plan) ? DataType::fp32 : activation_type(plan.precision.gradients);
  return sum + Bytes(counts.largest * bytes_per_element(added));
}

Bytes update_copies(const Plan& plan, const MemoryReserve& reserve, const ParameterCounts& counts) {
  return copies_gradients(plan) ? reserve.reduced_copies * counts.held : reserve.update_copies * counts.updated;
}

}  // namespace

Device with_allocator(Device device, const Profile& profile) {
  MemoryReserve& reserve = device.reserve;
  ConstantReader constants(profile);
  const auto take = [&](std::string_view name, auto& value) {
    if (const auto constant = constants.find(name)) value = std::remove_cvref_t<decltype(value)>(constant->value);
  };
  take("allocator.context", reserve.context);
  take("allocator.update_copies", reserve.update_copies);
  take("allocator.reduced_copies", reserve.reduced_copies);
  take("allocator.separate_gradients", reserve.separate_gradients);
  take("allocator.shape_gradients", reserve.shape_gradients);
  take("allocator.master_shards", reserve.master_shards);
  take("allocator.stage_outputs", reserve.stage_outputs);
  const auto connection = constants.find("allocator.connection"), connections = constants.find("allocator.connections"),
             channels = constants.find("collective.channels");
  if (connection && connections && channels)
    reserve.communicator = Bytes(connection->value * connections->value * channels->value);
  if (const auto buffers = constants.find("allocator.reduction_buffers"))
    reserve.reduction_buffers = Bytes(buffers->value);
  if (const auto index = profile.find("allocator.fragmentation")) {
    const Parameter& share = profile.parameters()[*index];
    const double spread = share.value * share.relative_uncertainty.value_or(0);
    reserve.fragmentation = share.value;
    reserve.fragmentation_low = share.low.value_or(std::max(0.0, share.value - spread));
    reserve.fragmentation_high = share.high.value_or(share.value + spread);
  }
  return device;
}

RankPeak rank_peak(const Plan& plan, const Layout& layout, const Device& device, const RankHolding& holding) {
  constexpr double gemm_streams = 2;
  const MemoryReserve& reserve = device.reserve;
  const Bytes dynamic = holding.dynamic;
  const Bytes runtime = reserve.context + gemm_streams * reserve.matmul_workspace;
  RankPeak peak;
  peak.state = holding.state;
  peak.dynamic = dynamic;
  if (reserve.master_shards) peak.state -= holding.counts.shards;
  peak.buffers = communication_buffers(plan, layout, reserve, holding.gradients);
  if (reduces(layout)) peak.workspaces = reserve.reduction_buffers.value_or(Bytes());
  peak.buffers += peak.workspaces;
  peak.software = separate_gradients(plan, reserve, holding.counts);
  if (reserve.stage_outputs) peak.software += holding.outputs;
  peak.held = peak.held_low = peak.held_usual = peak.held_high = dynamic * reserve.fragmentation;
  if (reserve.fragmentation_high > 0) {
    const Bytes copies = update_copies(plan, reserve, holding.counts);
    const Bytes room = device.memory - (peak.state + peak.buffers + peak.software + runtime);
    const bool even = plan.recompute.policy == "full" && !plan.recompute.layers;
    const Bytes uneven = even ? std::max(dynamic - holding.kept, Bytes()) : dynamic;
    const Bytes least = std::max(dynamic + uneven * reserve.fragmentation_low, copies);
    const auto unlimited = [&](double share) { return std::max(least, dynamic + uneven * share + copies); };
    const auto held = [&](double share) { return std::max(least, std::min(unlimited(share), room)) - dynamic; };
    peak.held = held(reserve.fragmentation);
    peak.low = least - dynamic - peak.held;
    peak.high = held(reserve.fragmentation_high) - peak.held;
    peak.held_low = least - dynamic;
    peak.held_usual = unlimited(reserve.fragmentation) - dynamic;
    peak.held_high = unlimited(reserve.fragmentation_high) - dynamic;
  }
  peak.reserve = runtime + peak.held;
  peak.low += peak.sum();
  peak.high += peak.sum();
  return peak;
}

FullestMoment fullest_moment(const ScheduleTable::Rank& rank, const std::vector<ChunkBytes>& chunks,
                             const std::vector<Bytes>& slots, Bytes message) {
  FullestMoment most;
  for (const ScheduleTable::Moment& moment : rank.moments) {
    FullestMoment now{message * static_cast<double>(moment.messages), Bytes()};
    for (std::size_t i = 0; i < rank.stages.size(); ++i) {
      const ChunkBytes& chunk = chunks[static_cast<std::size_t>(rank.stages[i])];
      const Bytes forwards = chunk.after_forward * static_cast<double>(moment.forwards[i]);
      const Bytes weights = chunk.for_weights * static_cast<double>(moment.weights[i]);
      now.sum += forwards;
      now.sum += weights;
      now.kept += forwards + weights;
    }
    if (moment.slot_class >= 0) now.sum += slots[static_cast<std::size_t>(moment.slot_class)];
    if (now.sum > most.sum) most = now;
  }
  return most;
}

}  // namespace plumbline::model
