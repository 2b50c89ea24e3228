// y = x W^T + b with W[out, in], its gradients, and the casts that FP8 training adds around them
// (DeepSeek-V3 report, arXiv 2412.19437, section 3.3: activations in 1x128 tiles, weights in 128x128 blocks; with one
// scale per tensor weights are stored in BF16, and each cast first looks for the largest entry).
#pragma once

#include <string>

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

struct LinearOptions {
  Precision precision = Precision::bf16;
  RecomputeGroup input_group = RecomputeGroup::other;   // of the cast of x
  RecomputeGroup output_group = RecomputeGroup::other;  // of the product
  bool bias = false;                                    // added by the product's kernel as it writes
  std::string weight;                                   // name of W; empty: that of the product
  bool shared = false;                                  // W belongs to another block of the same rank
  bool divided = false;                                 // W and b are this rank's part of them
  CollectiveAttributes sums_gradient = {};              // ranks that each make a part of the gradient of x
};

// x [T, in] -> [T, out]. In FP8 every product is "row times row" on K-contiguous operands, so the
// input gradient needs W transposed and the weight gradient both operands transposed.
TensorId linear(GraphBuilder& builder, const std::string& name, TensorId x, std::int64_t out,
                const LinearOptions& options);

}  // namespace plumbline::model
