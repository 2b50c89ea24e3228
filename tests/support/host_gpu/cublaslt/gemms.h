// GEMMs of the library in place of cuBLASLt, and their computation.
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace plumbline::tests::host_gpu {

// --- Descriptors behind the library's handles. Their defaults are those of cuBLASLt's header ---

struct Scales {
  const float* values = nullptr;  // one for each block, or a single one; nullptr stands for 1
  std::int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
};

struct Operation {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  std::int32_t turn_a = CUBLAS_OP_N, turn_b = CUBLAS_OP_N;
  Scales a_scales, b_scales;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int32_t bias_type = -1;  // the default is that of D
  std::int8_t fast_accumulation = 0;
  std::int32_t target_sms = 0;
};

// A column-major matrix, or a batch of them.
struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;  // elements from one column to the next
  std::int32_t batch = 1;
  std::int64_t stride = 0;  // elements from one matrix of a batch to the next
};

struct Preference {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t a_alignment = 256, b_alignment = 256, c_alignment = 256, d_alignment = 256;  // bytes
};

inline Operation& behind(cublasLtMatmulDesc_t handle) { return *reinterpret_cast<Operation*>(handle); }
inline Layout& behind(cublasLtMatrixLayout_t handle) { return *reinterpret_cast<Layout*>(handle); }
inline Preference& behind(cublasLtMatmulPreference_t handle) { return *reinterpret_cast<Preference*>(handle); }

// --- GEMMs ---

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
