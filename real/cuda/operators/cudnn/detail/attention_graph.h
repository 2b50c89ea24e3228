// Causal attention as graphs of cuDNN, which finds the fused kernel behind them.
#pragma once

#include "real/cuda/operators/cudnn/attention_library.h"
#include "real/cuda/operators/cudnn/cudnn_graph.h"

namespace plumbline::real::cuda {

// What a graph's tensors in memory are called; the last three are numbers given by value. dq_sum is scratch: FP32, as
// many as dq has, zero before the graph runs.
enum class AttentionTensor : std::int64_t { q = 1, k, v, o, log_sum_exp, d_o, dq, dk, dv, dq_sum, scale, lowest, one };

void describe_forward(CudnnGraph& graph, const AttentionShape& shape);
void describe_backward(CudnnGraph& graph, const AttentionShape& shape);

}  // namespace plumbline::real::cuda
