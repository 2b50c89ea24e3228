// Products as the library in cuBLASLt's place has them, and their computation.
#pragma once

#include "tests/support/host_gpu/cublaslt/descriptors.h"

namespace plumbline::tests::host_gpu {

// D = alpha op(A) op(B) + beta C (+ bias), once or for every matrix of a batch.
struct Gemms {
  Operation operation;
  Layout a, b, c, d;
};

struct Operands {
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  void* d = nullptr;
  float alpha = 1, beta = 0;
};

// Whether the library computes them on Hopper: extents that do not fit are no valid value, the rest is supported or
// not.
cublasStatus_t check(const Gemms& gemms);

// Sums are FP32 and rounded once to D's type; without a beta C is not read. TF32 is FP32 here, and FP8 is summed with
// all bits.
void compute(const Gemms& gemms, const Operands& operands);

}  // namespace plumbline::tests::host_gpu
