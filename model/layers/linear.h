// Emits y = x W^T + b with W[out, in], its gradients, and the casts of FP8 training (DeepSeek-V3 report, arXiv
// 2412.19437, section 3.3: activations in 1x128 tiles, weights in 128x128 blocks). In every other quantized format
// weights are stored in BF16 and cast where they are used, in both layouts. Casts to one scale per tensor, and to
// NVFP4, whose scales have one over the tensor above them (arXiv 2509.25149), first find the largest entry. With
// delayed scaling the one scale is known before (Transformer Engine, DelayedScaling), and one kernel writes a gradient
// in both layouts. Weights that are cast once a step are constants of a micro-batch in both layouts
// (model/program/stage_optimizer.h casts them). Weights of inference are stored in their format.
#pragma once

#include <string>

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

struct LinearOptions {
  OperandFormat operands;
  RecomputeGroup input_group = RecomputeGroup::other;   // group of the cast of x
  RecomputeGroup output_group = RecomputeGroup::other;  // group of the GEMM
  bool bias = false;                                    // added by the GEMM kernel as it writes
  std::string weight;                                   // name of W; empty: that of the GEMM
  bool shared = false;                                  // W belongs to another block of the same rank
  bool divided = false;                                 // W and b are this rank's part of larger tensors
  CollectiveAttributes sums_gradient = {};              // ranks that each make a part of the gradient of x
  // Ranks that divide the tokens of the gradient of y, of quantized GEMMs: [T/t, out]. They cast it before they gather.
  CollectiveAttributes gathers_gradient = {};
  bool partial = false;  // a row-parallel GEMM returns the rank's part of the sum, and stays in the region
};

// Returns x in the format of the GEMM `name`, cast if it has 16 bits and the format fewer.
TensorId gemm_operand(GraphBuilder& builder, const std::string& name, TensorId x, const OperandFormat& format);

// Shapes: x [T, in] -> [T, out]. GEMMs of quantized operands need both contiguous in K. So the input gradient needs W
// transposed and the weight gradient both operands transposed.
TensorId linear(GraphBuilder& builder, const std::string& name, TensorId x, std::int64_t out,
                const LinearOptions& options);

}  // namespace plumbline::model
