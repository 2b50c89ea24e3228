// One product on a call's stream: cuBLASLt's where it has one, else our own.
#pragma once

#include "real/cuda/kernels/plain_gemm.h"
#include "real/cuda/matrix_part.h"
#include "real/cuda/operators/call.h"
#include "real/cuda/vendor/cublaslt.h"

namespace plumbline::real::cuda {

// C = factor * op(A) op(B), or C +=.
struct GemmTask {
  MatrixPart a, b, c;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  bool tf32 = false;
  float factor = 1;
  TensorView bias;  // without data: none
  // FP8: laid out for cuBLASLt (gemm_scales.h).
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
bool library_takes(const GemmTask& task);
// Whether the kernel of our own knows the formats.
bool own_kernel_takes(const GemmTask& task);

GemmShape shape_of(const GemmTask& task);
GemmOperands operands_of(const GemmTask& task);
// The same for the kernel that takes the others; `index` within the batch.
PlainGemm plain_of(const GemmTask& task, std::int64_t index);

// Scratch memory of an operator made of products: first the scales, then the library's workspace.
struct GemmRoom {
  float* scales = nullptr;
  void* workspace = nullptr;
};
Status take_gemm_room(const Call& call, std::int64_t scale_floats, GemmRoom& room);

// Nothing where C is empty. A large product that the library refuses is a failure with its reason: our own kernel
// would compute it for seconds.
Status multiply(const Call& call, const GemmTask& task, const GemmRoom& room);

// A task as the call's attributes and tensors say, without its parts.
GemmTask task_of(const Call& call);

// Those of `count` that are this call's, where streams share an operator (Kernel::part).
struct Share {
  std::int64_t begin = 0, count = 0;
};
Share share_of(std::int64_t count, const Kernel& kernel);
// The same in rows: borders are multiples of 128, so that neither tiles of scales nor of the product are cut.
Share share_of_rows(std::int64_t rows, const Kernel& kernel);

}  // namespace plumbline::real::cuda
