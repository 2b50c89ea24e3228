// The operator that a record measured, alone in a graph, so that the cost functions can predict it.
#pragma once

#include <optional>

#include "calibrate/fit/fit_records.h"
#include "model/graph/graph.h"

namespace plumbline::calibrate {

// Returns the graph with its one operator; nullopt where the shape of a GEMM or of attention is not stated. A GEMM of
// several kernels, one behind the other, is one of them. Memory-bound operators read half of their bytes and write
// half.
std::optional<model::Graph> graph_of(const FitRecord& record);

}  // namespace plumbline::calibrate
