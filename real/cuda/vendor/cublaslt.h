// GEMMs through cuBLASLt, opened at run time. FP8 needs k contiguous in both operands (the "TN" layout).
#pragma once

#include <cublasLt.h>
#include <library_types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "real/cuda/status.h"
#include "real/cuda/vendor/library_search.h"

namespace plumbline::real::cuda {

enum class ScaleMode { none, tensor, row_blocks, square_blocks };  // the last two: 1 x 128 and 128 x 128

// The extent that routing decides, which differs for every micro-batch.
enum class Routed { none, rows, depth };

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  cudaDataType_t operand = CUDA_R_16BF, result = CUDA_R_16BF;
  bool x_k_contiguous = true;  // X is [m,k]; else [k,m]
  bool w_k_contiguous = true;  // W is [n,k]; else [k,n]
  bool accumulate = false;     // D += the GEMM
  bool fast_accumulation = false;
  bool tf32 = false;    // FP32 operands are multiplied with 10 bits of mantissa
  bool bias = false;    // adds a number per column of D, in D's format
  int target_sms = 0;   // 0: all of the device
  int alignment = 256;  // bytes, of every operand passed to run()
  ScaleMode x_scale = ScaleMode::none, w_scale = ScaleMode::none;
  // Elements from one row of a matrix to the next; 0: rows are contiguous.
  std::int64_t x_stride = 0, w_stride = 0, d_stride = 0;
  // The number of GEMMs of the same shape, and the elements from one matrix to the next.
  std::int64_t batch = 1, x_batch_stride = 0, w_batch_stride = 0, d_batch_stride = 0;
  Routed routed = Routed::none;
};

// Rows of the tiles into which libraries divide GEMMs; between two multiples the best algorithm hardly changes.
constexpr std::int64_t routed_step = 128;

// Returns the shape whose algorithm serves all that differ by routing alone. The routed extent is rounded up, so that
// no workspace is too small. With routed depth, packed strides are rounded with it; other strides are kept.
inline GemmShape usual_shape(GemmShape s) {
  const auto rounded = [](std::int64_t extent) { return (extent + routed_step - 1) / routed_step * routed_step; };
  const auto packed = [](std::int64_t stride) { return stride % routed_step == 0 ? 0 : stride; };
  if (s.routed == Routed::rows) s.m = rounded(s.m);
  if (s.routed != Routed::depth) return s;
  s.k = rounded(s.k);
  if (s.x_k_contiguous) s.x_stride = packed(s.x_stride);
  if (s.w_k_contiguous) s.w_stride = packed(s.w_stride);
  return s;
}

inline GemmShape exact_shape(GemmShape s) {
  s.routed = Routed::none;
  return s;
}

struct ColumnMajor {
  std::int64_t rows = 0, columns = 0, leading = 0;  // elements from one column to the next
  std::int64_t batch_stride = 0;
  bool transposed = false;  // the GEMM transposes it
};
struct ColumnMajorGemm {
  ColumnMajor a, b, d;  // D = op(A) op(B)
};

inline ColumnMajorGemm column_major(const GemmShape& s) {
  const auto as_columns = [](std::int64_t rows, std::int64_t columns, std::int64_t stride, std::int64_t batch_stride) {
    return ColumnMajor{columns, rows, stride > 0 ? stride : columns, batch_stride, false};
  };
  ColumnMajorGemm gemm;
  gemm.a = s.w_k_contiguous ? as_columns(s.n, s.k, s.w_stride, s.w_batch_stride)
                            : as_columns(s.k, s.n, s.w_stride, s.w_batch_stride);
  gemm.b = s.x_k_contiguous ? as_columns(s.m, s.k, s.x_stride, s.x_batch_stride)
                            : as_columns(s.k, s.m, s.x_stride, s.x_batch_stride);
  gemm.d = as_columns(s.m, s.n, s.d_stride, s.d_batch_stride);
  gemm.a.transposed = s.w_k_contiguous;  // W^T is passed as n x k
  gemm.b.transposed = !s.x_k_contiguous;
  return gemm;
}

// The functions in use, by their own names.
#define PLUMBLINE_CUBLASLT_FUNCTIONS(DO)                   \
  DO(create, cublasLtCreate)                               \
  DO(destroy, cublasLtDestroy)                             \
  DO(version, cublasLtGetVersion)                          \
  DO(status_string, cublasLtGetStatusString)               \
  DO(operation_create, cublasLtMatmulDescCreate)           \
  DO(operation_destroy, cublasLtMatmulDescDestroy)         \
  DO(operation_set, cublasLtMatmulDescSetAttribute)        \
  DO(layout_create, cublasLtMatrixLayoutCreate)            \
  DO(layout_destroy, cublasLtMatrixLayoutDestroy)          \
  DO(layout_set, cublasLtMatrixLayoutSetAttribute)         \
  DO(preference_create, cublasLtMatmulPreferenceCreate)    \
  DO(preference_destroy, cublasLtMatmulPreferenceDestroy)  \
  DO(preference_set, cublasLtMatmulPreferenceSetAttribute) \
  DO(heuristic, cublasLtMatmulAlgoGetHeuristic)            \
  DO(algorithm_get, cublasLtMatmulAlgoConfigGetAttribute)  \
  DO(matmul, cublasLtMatmul)

struct CublasLt {
  std::shared_ptr<Library> library;
  cublasLtHandle_t handle = nullptr;
  PLUMBLINE_CUBLASLT_FUNCTIONS(PLUMBLINE_FUNCTION_MEMBER)

  CublasLt() = default;
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Creates a handle on the current device. Returns nullptr if something is missing, with the reason in `error`.
  static std::unique_ptr<CublasLt> open(const std::vector<std::string>& folders, std::string& error);
  Status outcome(cublasStatus_t status, const char* doing) const;
};

struct GemmOperands {
  const void* x = nullptr;
  const void* w = nullptr;
  void* d = nullptr;
  const float* x_scales = nullptr;
  const float* w_scales = nullptr;
  const void* bias = nullptr;  // if the shape has one
  float factor = 1;            // scales the GEMM
};

class GemmPlan {
 public:
  explicit GemmPlan(const CublasLt& library) : lt_(library) {}
  ~GemmPlan();
  GemmPlan(const GemmPlan&) = delete;
  GemmPlan& operator=(const GemmPlan&) = delete;

  // Describes the GEMM and requests an algorithm; only the scales of the operands are used. Fails if the library has
  // none for the shape, the formats or the device.
  Status prepare(const GemmShape& shape, const GemmOperands& operands, std::int64_t workspace_bytes);
  // Sets another m, n or k, or other strides, for the same algorithm, which may refuse them at run().
  Status resize(const GemmShape& shape);
  // Enqueues the GEMM. Pointers have the shape's alignment (at least 16), the workspace 256.
  Status run(const GemmOperands& operands, void* workspace, cudaStream_t stream);
  // Selects the next algorithm that the library proposed; false if there is none left.
  bool try_next();
  // The algorithm's ids as in cublasLt.h, and the library's estimate of waves.
  std::string algorithm() const;

 private:
  Status describe_operation(const GemmShape& shape);
  Status set_scales(const GemmOperands& operands);
  Status set_bias(const GemmOperands& operands);
  Status create_layouts(const GemmShape& shape);
  Status create_layout(cublasLtMatrixLayout_t& layout, cudaDataType_t type, const ColumnMajor& matrix,
                       std::int64_t batch);
  Status resize_layout(cublasLtMatrixLayout_t layout, const ColumnMajor& matrix);
  Status choose_algorithm(std::int64_t workspace_bytes, int alignment);

  static constexpr int candidates = 4;
  const CublasLt& lt_;
  bool accumulate_ = false;
  const float* x_scales_ = nullptr;
  const float* w_scales_ = nullptr;
  const void* bias_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  cublasLtMatmulHeuristicResult_t found_[candidates] = {};
  int found_count_ = 0, chosen_ = 0;
};

}  // namespace plumbline::real::cuda
