// Causal attention as cuDNN graphs, for which the library has a fused kernel.
#pragma once

#include "real/cuda/operators/cudnn/attention_library.h"
#include "real/cuda/operators/cudnn/cudnn_graph.h"

namespace plumbline::real::cuda {

// Ids of the graph's tensors in memory; the last three are numbers passed by value. dq_sum is scratch: FP32, as large
// as dq, zero before the graph runs.
enum class AttentionTensor : std::int64_t { q = 1, k, v, o, log_sum_exp, d_o, dq, dk, dv, dq_sum, scale, lowest, one };

void describe_forward(CudnnGraph& graph, const AttentionShape& shape);
void describe_backward(CudnnGraph& graph, const AttentionShape& shape);

}  // namespace plumbline::real::cuda
