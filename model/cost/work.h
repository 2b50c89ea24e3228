// FLOPs and bytes of an operator, from the shapes of the tensors it names. Nothing here knows a rate.
#pragma once

#include "model/base/units.h"
#include "model/graph/graph.h"

namespace plumbline::model {

// A matrix product in terms of one kernel's tiles: `groups` products of m x n x k.
struct GemmShape {
  double groups = 1, m = 0, n = 0, k = 0;
};

// For matmul, grouped_matmul and batched_matmul. `row_scale` multiplies dimensions that vary with routing.
GemmShape gemm_shape(const Graph& graph, const Operator& op, double row_scale);

// 2*m*n*k for products. For attention 2*(dk+dv) per query, key and head (forward), 2*(3 dk + 2 dv) backward (five
// products): of S keys per query, or of the w keys of a window; when `causal` of the keys up to the query, S/2 or
// w - w^2/(2S) on average. Products over stored scores know no mask. Zero for memory-bound operators.
Flops flops(const Graph& graph, const Operator& op, double row_scale, bool causal);

// Bytes read and written, each tensor once. A gradient that is accumulated counts twice.
Bytes bytes_moved(const Graph& graph, const Operator& op, double row_scale);

}  // namespace plumbline::model
