// Recomputation: forward operators whose outputs are dropped after F and made again where the backward
// pass first needs them. It trades time for memory; both follow from the rewritten graph.
#pragma once

#include <map>
#include <set>

#include "model/graph/graph.h"

namespace plumbline::model {

using RecomputePolicy = std::set<RecomputeGroup>;

// For every operator of phases I and W that reads the output of a forward operator in `policy`, inserts
// a copy of that operator (and of what it needs in turn) before its first reader. `kept_as` maps a
// tensor to the stored form from which the backward pass reads it.
// Experts, and with the group `other` whole blocks, are replayed instead: all their forward operators run again in
// order before the first gradient, needed or not, as frameworks that run a checkpointed function again do.
void recompute(Graph& graph, const RecomputePolicy& policy, const std::map<TensorId, TensorId>& kept_as);

}  // namespace plumbline::model
