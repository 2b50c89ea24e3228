// One product of an operator: which parts of which tensors, and how cuBLASLt is told of it. No device is needed to
// describe one.
#pragma once

#include "real/cuda/kernels/plain_product.h"
#include "real/cuda/matrix_part.h"
#include "real/cuda/vendor/cublaslt.h"

namespace plumbline::real::cuda {

// C = factor * op(A) op(B), or C +=.
struct ProductTask {
  MatrixPart a, b, c;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  bool tf32 = false;
  float factor = 1;
  TensorView bias;  // without data: none
  // FP8: laid out for cuBLASLt (product_scales.h).
  const float* a_scales = nullptr;
  const float* b_scales = nullptr;
  // So many products, each so many columns further to the right in its tensors.
  std::int64_t batch = 1, a_next = 0, b_next = 0, c_next = 0;
  int target_sms = 0;
  Routed routed = Routed::none;

  std::int64_t depth() const { return transpose_a ? a.rows : a.columns; }
};

// Whether cuBLASLt has such products at all: operands of one format; FP8 with k contiguous in both, in multiples of 16
// bytes (of 8 elements across), from the beginning of a scale's tile on.
bool library_takes(const ProductTask& task);
// Whether the kernel of our own knows the formats.
bool own_kernel_takes(const ProductTask& task);

ProductShape shape_of(const ProductTask& task);
ProductOperands operands_of(const ProductTask& task);
// The same for the kernel that takes the others; `index` within the batch.
PlainProduct plain_of(const ProductTask& task, std::int64_t index);

}  // namespace plumbline::real::cuda
