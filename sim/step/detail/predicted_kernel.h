// The data of a predicted kernel, with which comparisons line it up with measured ones.
#pragma once

#include <string_view>

#include "model/program/program.h"
#include "model/result/timeline.h"

namespace plumbline::sim {

// Returns the kernel of an operator in a segment, with the rows that its layer expects. An all-to-all or a collective
// is its transfer.
model::Kernel predicted_kernel(const model::Graph& graph, const model::Operator& op, const model::Segment& segment);

// Returns the row of an all-to-all's transfer: the gradient of combine is sent like a dispatch, and that of dispatch
// like a combine.
std::string_view transfer_row(const model::Segment& segment);

}  // namespace plumbline::sim
