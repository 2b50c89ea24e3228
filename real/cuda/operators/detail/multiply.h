// One GEMM on a call's stream, by cuBLASLt if it has one, or by plumbline's own kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/kernels/kernels.h"
#include "real/cuda/operators/call.h"
#include "real/cuda/status.h"
#include "real/cuda/tensor_view.h"
#include "real/cuda/vendor/cublaslt.h"

namespace plumbline::real::cuda {

// C = factor * op(A) op(B), or C += it.
struct GemmTask {
  MatrixPart a, b, c;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  bool tf32 = false;
  float factor = 1;
  TensorView bias;  // without data: none
  // FP8 scales in cuBLASLt's layout (lay_out_scales).
  const float* a_scales = nullptr;
  const float* b_scales = nullptr;
  // The number of GEMMs, and the columns from one to the next in each tensor.
  std::int64_t batch = 1, a_next = 0, b_next = 0, c_next = 0;
  int target_sms = 0;
  Routed routed = Routed::none;

  std::int64_t depth() const { return transpose_a ? a.rows : a.columns; }
};

// Returns whether cuBLASLt supports such GEMMs at all. Operands must have one format. FP8 needs k contiguous in both,
// in multiples of 16 bytes (8 elements across), from the start of a scale's tile on.
bool library_takes(const GemmTask& task);
// Returns whether plumbline's own kernel supports the formats.
bool own_kernel_takes(const GemmTask& task);

GemmShape shape_of(const GemmTask& task);
GemmOperands operands_of(const GemmTask& task);
// The task for plumbline's own kernel; `index` is within the batch.
PlainGemm plain_of(const GemmTask& task, std::int64_t index);

// Scratch memory of an operator made of GEMMs: first the scales, then the library's workspace.
struct GemmScratch {
  float* scales = nullptr;
  void* workspace = nullptr;
};
Status take_gemm_scratch(const Call& call, std::int64_t scale_floats, GemmScratch& scratch);

// Enqueues the GEMM; nothing if C is empty. If the library refuses a large one, the failure has its reason: plumbline's
// own kernel would take seconds.
Status multiply(const Call& call, const GemmTask& task, const GemmScratch& scratch);

// Makes a task from the call's attributes and tensors; its parts are left to the caller.
GemmTask task_of(const Call& call);

// This call's share of `count`, where streams divide an operator (Kernel::part).
struct Share {
  std::int64_t begin = 0, count = 0;
};
Share share_of(std::int64_t count, const Kernel& kernel);
// This call's share of the rows. Borders are multiples of 128, so that no tile of scales or of the GEMM is cut.
Share share_of_rows(std::int64_t rows, const Kernel& kernel);

// --- Lays out the scales of FP8 operands for cuBLASLt, right before the GEMM that reads them ---

// Returns the scratch floats that lay_out_scales() may need for these rows, in multiples of 256 bytes; 0 for a format
// whose scales keep their order.
std::int64_t scale_room(const MatrixPart& part);

// Points `scales` at those of the part's first row: in `scratch`, or in the tensor if the order is the same; nullptr
// for a format without scales. The part has all columns of its tensor, and whole blocks of 128 rows.
Status lay_out_scales(const MatrixPart& part, float* scratch, cudaStream_t stream, const float*& scales);

// The scales of a part's rows in the tensor.
const float* stored_scales(const MatrixPart& part);

// The number of scales per row of 128 x 128 blocks in cuBLASLt's order.
std::int64_t square_row(const TensorView& tensor);

}  // namespace plumbline::real::cuda
