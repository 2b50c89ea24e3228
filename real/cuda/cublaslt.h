// Matrix products through cuBLASLt, opened at run time.
//
// All matrices of a Product are row-major: D[m,n] = sum over k of X[.,.] W[.,.] (+ D when accumulating). cuBLASLt
// thinks in columns, and a row-major [r,c] matrix is a column-major c x r one; so W becomes its A, X its B and D is
// n x m there. FP8 wants k contiguous in both (its "TN" form).
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>

#include "real/cuda/json_line.h"
#include "real/cuda/library_search.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// The functions in use, by their own names.
struct CublasLt {
  std::shared_ptr<Library> library;
  cublasLtHandle_t handle = nullptr;
  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtDestroy) destroy = nullptr;
  decltype(&::cublasLtGetVersion) version = nullptr;
  decltype(&::cublasLtGetStatusString) status_string = nullptr;
  decltype(&::cublasLtMatmulDescCreate) operation_create = nullptr;
  decltype(&::cublasLtMatmulDescDestroy) operation_destroy = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) operation_set = nullptr;
  decltype(&::cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&::cublasLtMatmulAlgoConfigGetAttribute) algorithm_get = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;

  CublasLt() = default;
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Creates a handle on the current device. nullptr: `error` says what is missing.
  static std::unique_ptr<CublasLt> open(const std::vector<std::string>& folders, std::string& error);
  Status outcome(cublasStatus_t status, const char* doing) const;
};

enum class ScaleMode { none, tensor, row_blocks, square_blocks };  // the last two: 1 x 128 and 128 x 128

struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  cudaDataType_t operand = CUDA_R_16BF, result = CUDA_R_16BF;
  bool x_k_contiguous = true;  // X is [m,k]; else [k,m]
  bool w_k_contiguous = true;  // W is [n,k]; else [k,n]
  bool accumulate = false;     // D += product
  bool fast_accumulation = false;
  int target_sms = 0;   // 0: all of the device
  int alignment = 256;  // bytes, of every operand that will be given to run
  ScaleMode x_scale = ScaleMode::none, w_scale = ScaleMode::none;
};

struct ProductOperands {
  const void* x = nullptr;
  const void* w = nullptr;
  void* d = nullptr;
  const float* x_scales = nullptr;
  const float* w_scales = nullptr;
};

class Product {
 public:
  explicit Product(const CublasLt& library) : lt_(library) {}
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  // Describes the product and asks for an algorithm; the operands only tell where scales lie.
  // Fails when the library has none for the shape, the formats or the device.
  Status prepare(const ProductShape& shape, const ProductOperands& operands, std::int64_t workspace_bytes);
  // Enqueues the product. Pointers keep the shape's alignment (at least 16), the workspace 256.
  Status run(const ProductOperands& operands, void* workspace, cudaStream_t stream);
  // Takes the next algorithm that the library proposed; false when there is none left.
  bool try_next();
  // Ids as in cublasLt.h, and the library's own estimate of waves.
  JsonLine algorithm() const;

 private:
  Status describe_operation(const ProductShape& shape);
  Status set_scales(const ProductOperands& operands);
  Status create_layouts(const ProductShape& shape);
  Status choose_algorithm(std::int64_t workspace_bytes, int alignment);

  static constexpr int candidates = 4;
  const CublasLt& lt_;
  bool accumulate_ = false;
  const float* x_scales_ = nullptr;
  const float* w_scales_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  cublasLtMatmulHeuristicResult_t found_[candidates] = {};
  int found_count_ = 0, chosen_ = 0;
};

}  // namespace plumbline::real::cuda
