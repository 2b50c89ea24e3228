#include "sim/step/detail/gpu_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <variant>

namespace plumbline::sim {

namespace {

using model::RankGroup;

std::size_t root_of(std::vector<std::size_t>& parents, std::size_t replica) {
  while (parents[replica] != replica) replica = parents[replica] = parents[parents[replica]];
  return replica;
}

}  // namespace

GpuGroups join_groups(std::span<const RankGroup> groups, std::int64_t replicas) {
  std::vector<std::size_t> parents(static_cast<std::size_t>(replicas));
  std::iota(parents.begin(), parents.end(), std::size_t{0});
  for (const RankGroup& group : groups)
    for (std::int64_t replica = 0; replica < replicas; ++replica) {
      if (replica / group.stride % group.ranks == 0) continue;
      const auto here = static_cast<std::size_t>(replica), before = static_cast<std::size_t>(replica - group.stride);
      const std::size_t a = root_of(parents, before), b = root_of(parents, here);
      parents[std::max(a, b)] = std::min(a, b);
    }
  GpuGroups result;
  std::vector<std::int32_t> group_of_root(parents.size(), -1);
  for (std::size_t replica = 0; replica < parents.size(); ++replica) {
    std::int32_t& group = group_of_root[root_of(parents, replica)];
    if (group < 0) {
      group = static_cast<std::int32_t>(result.members.size());
      result.members.emplace_back();
    }
    result.of.push_back(group);
    result.members[static_cast<std::size_t>(group)].push_back(static_cast<std::int32_t>(replica));
  }
  return result;
}

RankGroup collective_ranks(const model::Graph& graph, std::span<const std::uint16_t> operators) {
  std::int64_t stride = 0, extent = 1;
  for (const std::uint16_t index : operators) {
    const auto* ranks = std::get_if<model::CollectiveAttributes>(&graph.operators[index].attributes);
    if (ranks == nullptr || ranks->ranks == 1) continue;
    stride = stride == 0 ? ranks->stride : std::min(stride, ranks->stride);
    extent = std::max(extent, ranks->ranks * ranks->stride);
  }
  return stride == 0 ? RankGroup{} : RankGroup{extent / stride, stride};
}

SlotBarriers::SlotBarriers(const model::StepProgram& program, const RankGroup& exchange, std::int64_t replicas) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> known;
  std::vector<RankGroup> distinct;
  std::map<std::set<std::int32_t>, std::size_t> joins;
  const auto kind_of = [&](const model::Segment& segment) {
    RankGroup group;
    if (segment.stream == model::Stream::communication) group = exchange;
    if (segment.stream == model::Stream::collective)
      group = collective_ranks(program.blocks[segment.block], segment.operators);
    group.ranks = std::min(group.ranks, replicas / group.stride);
    if (group.ranks <= 1) return -1;
    const auto [kind, fresh] = known.try_emplace({group.ranks, group.stride}, static_cast<std::int32_t>(known.size()));
    if (fresh) {
      distinct.push_back(group);
      groups_.push_back(join_groups({&group, 1}, replicas));
    }
    return kind->second;
  };
  for (const model::SlotTemplate& slot : program.templates) {
    std::set<std::int32_t> used;
    std::vector<std::int32_t>& kinds = kinds_.emplace_back();
    for (const model::Segment& segment : slot.segments)
      if (kinds.push_back(kind_of(segment)); kinds.back() >= 0) used.insert(kinds.back());
    const auto [join, fresh] = joins.try_emplace(used, joins.size());
    joined_.push_back(join->second);
    if (!fresh) continue;
    std::vector<RankGroup> groups;
    for (const std::int32_t kind : used) groups.push_back(distinct[static_cast<std::size_t>(kind)]);
    together_.push_back(join_groups(groups, replicas));
  }
}

}  // namespace plumbline::sim
