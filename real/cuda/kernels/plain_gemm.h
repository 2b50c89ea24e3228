// A GEMM for the shapes and formats that cuBLASLt does not support: odd widths of FP8, operands of different formats.
// It is correct and slow; no model is trained at such shapes.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/matrix_part.h"

namespace plumbline::real::cuda {

struct PlainGemm {
  MatrixPart a, b, c;  // C = factor * op(A) op(B); C is fp32, bf16 or fp16
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;  // C +=
  float factor = 1;
  TensorView bias;  // a number per column of C; without data: none
};

// Sums are in FP32, in a fixed order.
cudaError_t plain_gemm(const PlainGemm& gemm, cudaStream_t stream);

}  // namespace plumbline::real::cuda
