// GEMMs of the library in place of cuBLASLt, and their computation.
#pragma once

#include "tests/support/host_gpu/cublaslt/descriptors.h"

namespace plumbline::tests::host_gpu {

// Describes D = alpha op(A) op(B) + beta C (+ bias), once or for every matrix of a batch.
struct Gemms {
  Operation operation;
  Layout a, b, c, d;
};

struct Operands {
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  void* d = nullptr;
  float alpha = 1, beta = 0;
};

// Returns whether cuBLASLt computes the GEMM on Hopper: extents that do not fit are an invalid value, the rest is
// supported or not.
cublasStatus_t check(const Gemms& gemms);

// Sums in FP32 and rounds once to D's type; C is not read if beta is 0. TF32 is computed as FP32, and FP8 is summed
// with all bits.
void compute(const Gemms& gemms, const Operands& operands);

}  // namespace plumbline::tests::host_gpu
