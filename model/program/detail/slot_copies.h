// Copies to and from the host in a slot: which copies of a block run together, and how two buffers delay them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph/graph.h"
#include "model/program/program.h"

namespace plumbline::model {

bool is_host_copy(OperatorKind kind);

// The copies of one segment.
struct CopyGroup {
  Section section = Section::attention;
  std::vector<std::uint16_t> operators;
};
// Returns the copies of one phase of a block by section, in the order in which the first tensor is ready (F) or needed.
std::vector<CopyGroup> copies_of(const Graph& graph, Phase phase);

// Adds the waits of two buffers in each direction. A block's forward waits until the copies of the block two before it
// have left; a block's fetch starts when the backward of the block two before it has ended.
void hold_to_two_buffers(std::vector<Segment>& segments);

}  // namespace plumbline::model
