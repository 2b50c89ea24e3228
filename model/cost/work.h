// Counts the FLOPs and bytes of an operator from the shapes of its tensors, independently of any rate.
#pragma once

#include "model/base/units.h"
#include "model/cost/forms/cached_attention_form.h"
#include "model/cost/forms/kernel_forms.h"
#include "model/graph/graph.h"

namespace plumbline::model {

// A GEMM as its kernel runs it: `groups` GEMMs of m x n x k.
struct GemmShape {
  double groups = 1, m = 0, n = 0, k = 0;
};

// Returns the elements of a tensor. `row_scale` multiplies dimensions that vary with routing.
double elements(const Tensor& tensor, double row_scale);

// Returns the shape of a (grouped, batched) matmul. `row_scale` multiplies dimensions that vary with routing.
GemmShape gemm_shape(const Graph& graph, const Operator& op, double row_scale);

// Returns the shape of an attention kernel or of its gradient. Each query sees S keys, or the w keys of a window; when
// `causal` only those up to the query, on average S/2 or w - w^2/(2S).
AttentionWork attention_work(const Graph& graph, const Operator& op, bool causal);

// Returns the work of a kernel that computes what the window hides.
AttentionWork without_window(const Operator& op, AttentionWork work);

// Returns the shape of a cached_attention; when `causal` a query sees the keys up to it only.
CachedAttentionWork cached_attention_work(const Graph& graph, const Operator& op, bool causal);

// Returns 2*m*n*k for GEMMs. Attention has 2*(dk+dv) per query, key and head forward, and 2*(3 dk + 2 dv) backward
// (five GEMMs); over a latent cache the head dimensions are those of the latent. GEMMs over stored scores ignore the
// mask. Memory-bound operators have none.
Flops flops(const Graph& graph, const Operator& op, double row_scale, bool causal);

// Returns the bytes read and written, each tensor once. A gradient that is accumulated counts twice; of a cache only
// the rows that are seen or written count, of experts the expected number that have rows.
Bytes bytes_moved(const Graph& graph, const Operator& op, double row_scale);

}  // namespace plumbline::model
