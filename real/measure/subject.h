// What a record says of an operator that was timed.
#pragma once

#include <string>

#include "real/measure/workload.h"

namespace plumbline::real {

// FLOPs and bytes are those that the cost functions of the simulator count (model/cost/work.h), attention causal,
// so that a rate fitted to records means the same there. `name`: before the operator's; empty: its kind alone.
Subject subject_of(const model::Graph& graph, const model::Operator& op, const std::string& name, int cores);

}  // namespace plumbline::real
