// Recomputation drops outputs of forward operators after F and computes them again where the backward pass first needs
// them. It trades time for memory; both follow from the rewritten graph.
#pragma once

#include <map>
#include <set>

#include "model/graph/graph.h"

namespace plumbline::model {

using RecomputePolicy = std::set<RecomputeGroup>;

// For every operator of phases I and W that reads the output of a forward operator in `policy`, inserts a copy of that
// operator, and of the dropped operators it depends on, before its first reader. `kept_as` maps a tensor to the stored
// form that the backward pass reads. Experts, and under group `other` whole blocks, are replayed instead: all their
// forward operators run again in order before the first gradient, needed or not, as activation checkpointing does. With
// `early_stop` those behind the last one whose output the backward pass reads do not.
void recompute(Graph& graph, const RecomputePolicy& policy, const std::map<TensorId, TensorId>& kept_as);

}  // namespace plumbline::model
