// Samples of attention on the device, computed again in double precision.
#pragma once

#include "real/cuda/measure/comparison.h"
#include "real/cuda/operators/cudnn_attention.h"

namespace plumbline::real::cuda {

// Compares rows of the first and the last head of the last sequence: outputs and log-sum-exp, or the gradients of
// queries, keys and values. The stream that wrote was waited for.
Status compare_attention(const AttentionShape& shape, const AttentionOperands& operands, Comparison& comparison);

}  // namespace plumbline::real::cuda
