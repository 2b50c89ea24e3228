// The name under which a profile holds what an operator was measured to take.
#pragma once

#include <string>

#include "model/graph/graph.h"

namespace plumbline::model {

// Kind, phase, number format of the first tensor, the expected shapes of all that it reads and writes, and what else
// decides its time (which operands are turned, heads, sequence length and window of attention, ...):
// "matmul-F-fp32-256x128-384x128-to-256x384-tb". Equal shapes in a row are counted ("-2n256x128"), another format is
// named ("-256_int32"). Letters, digits, '_' and '-': a bare key of TOML. Requires an operator that reads or writes.
std::string operator_key(const Graph& graph, const Operator& op);

}  // namespace plumbline::model
