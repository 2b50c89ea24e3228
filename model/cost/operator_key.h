// The name under which a profile holds what an operator was measured to take.
#pragma once

#include <string>

#include "model/graph/graph.h"

namespace plumbline::model {

// Kind, phase, number format and the expected shapes of all that it reads and writes, and what else decides its time
// (sequence length and window of attention): "matmul-F-fp32-256x128-384x128-to-256x384". Letters, digits and dashes.
std::string operator_key(const Graph& graph, const Operator& op);

}  // namespace plumbline::model
