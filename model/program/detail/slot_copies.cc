#include "model/program/detail/slot_copies.h"

#include <algorithm>
#include <map>

namespace plumbline::model {

namespace {

constexpr std::int32_t copy_buffers = 2;

// The last segment of a block on each stream.
using Last = std::map<Stream, std::uint16_t>;
using Blocks = std::map<std::int32_t, Last>;  // by position in the stage

void wait_for(const Blocks& blocks, std::int32_t position, Segment& segment) {
  const auto found = blocks.find(position);
  if (found == blocks.end()) return;
  for (const auto& [stream, last] : found->second)
    if (stream != segment.stream) segment.waits.push_back(last);
}

}  // namespace

bool is_host_copy(OperatorKind kind) {
  return kind == OperatorKind::copy_to_host || kind == OperatorKind::copy_to_device;
}

std::vector<CopyGroup> copies_of(const Graph& graph, Phase phase) {
  std::vector<CopyGroup> groups;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const Operator& op = graph.operators[i];
    if (op.phase != phase || !is_host_copy(op.kind)) continue;
    auto group = std::ranges::find(groups, op.section, &CopyGroup::section);
    if (group == groups.end()) group = groups.insert(group, {op.section, {}});
    group->operators.push_back(static_cast<std::uint16_t>(i));
  }
  return groups;
}

void hold_to_two_buffers(std::vector<Segment>& segments) {
  Blocks sent, computed;           // copies of the forward side; other segments of the backward side
  std::int32_t last_forward = -1;  // block of the forward side
  for (std::size_t i = 0; i < segments.size(); ++i) {
    Segment& segment = segments[i];
    const auto index = static_cast<std::uint16_t>(i);
    const auto position = static_cast<std::int32_t>(segment.block_of_stage);
    if (segment.stream == Stream::to_host) {
      sent[position][segment.stream] = index;
    } else if (segment.stream == Stream::from_host) {
      wait_for(computed, position + copy_buffers, segment);
    } else if (segment.forward_side) {
      if (position > last_forward) wait_for(sent, position - copy_buffers, segment);
      last_forward = std::max(last_forward, position);
    } else {
      computed[position][segment.stream] = index;
    }
  }
}

}  // namespace plumbline::model
