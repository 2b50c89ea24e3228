// Matrix products through cuBLASLt, opened at run time. FP8 wants k contiguous in both operands (its "TN" form).
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>

#include "real/cuda/status.h"
#include "real/cuda/vendor/library_search.h"
#include "real/cuda/vendor/product_shape.h"

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
  decltype(&::cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
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

struct ProductOperands {
  const void* x = nullptr;
  const void* w = nullptr;
  void* d = nullptr;
  const float* x_scales = nullptr;
  const float* w_scales = nullptr;
  const void* bias = nullptr;  // where the shape says so
  float factor = 1;            // of the product
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
  // Another m, n or k, or other strides, for the same algorithm, which may refuse them when run.
  Status resize(const ProductShape& shape);
  // Enqueues the product. Pointers keep the shape's alignment (at least 16), the workspace 256.
  Status run(const ProductOperands& operands, void* workspace, cudaStream_t stream);
  // Takes the next algorithm that the library proposed; false when there is none left.
  bool try_next();
  // Ids as in cublasLt.h, and the library's own estimate of waves.
  std::string algorithm() const;

 private:
  Status describe_operation(const ProductShape& shape);
  Status set_scales(const ProductOperands& operands);
  Status set_bias(const ProductOperands& operands);
  Status create_layouts(const ProductShape& shape);
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
