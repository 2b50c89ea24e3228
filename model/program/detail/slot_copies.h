// Copies to and from the host in a slot: which of a block run together, and how two buffers hold them back.
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph/graph.h"
#include "model/program/program.h"

namespace plumbline::model {

bool is_host_copy(OperatorKind kind);

// What one segment copies.
struct CopyGroup {
  Section section = Section::attention;
  std::vector<std::uint16_t> operators;
};
// The copies of one phase of a block, by section, in the order in which the first of each is there (F) or needed.
std::vector<CopyGroup> copies_of(const Graph& graph, Phase phase);

// There is room for what two blocks copy in each direction: a block's forward waits until what the block two before it
// keeps has left, and what a block needs is fetched when the backward of the block two before it has ended.
void hold_to_two_buffers(std::vector<Segment>& segments);

}  // namespace plumbline::model
