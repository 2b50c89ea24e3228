// What an indexer of sparse attention learns.
#pragma once

#include <vector>

#include "model/graph/attributes.h"
#include "tests/support/interpreter/interpreter.h"

namespace plumbline::tests {

// Returns the divergence of an indexer's scores from what attention gives the chosen keys: the mean over queries of the
// sum over the indexer's choices. Operands are those that index_scores_grad reads.
double index_divergence(const model::AttentionAttributes& attributes, const std::vector<Matrix>& operands);

}  // namespace plumbline::tests
