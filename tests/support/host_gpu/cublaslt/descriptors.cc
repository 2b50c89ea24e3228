// Creates, changes and destroys descriptors. Attributes that the backend does not use are not supported.
#include <cstddef>
#include <cstring>

#include "tests/support/host_gpu/cublaslt/gemms.h"

namespace plumbline::tests::host_gpu {
namespace {

template <typename Description, typename Handle>
cublasStatus_t create(Handle* handle, const Description& description) {
  *handle = reinterpret_cast<Handle>(new Description(description));
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Handle>
cublasStatus_t destroy(Handle handle) {
  delete &behind(handle);
  return CUBLAS_STATUS_SUCCESS;
}

// An attribute's value as the caller passes it.
struct Value {
  const void* data;
  std::size_t bytes;

  template <typename Attribute>
  cublasStatus_t become(Attribute& attribute) const {
    if (data == nullptr || bytes != sizeof attribute) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&attribute, data, bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
};

// The case of a switch that sets a member.
#define ATTRIBUTE(name, member) \
  case name:                    \
    return value.become(member);

}  // namespace

}  // namespace plumbline::tests::host_gpu

using namespace plumbline::tests::host_gpu;

extern "C" {

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  Operation operation;
  operation.compute = compute;
  return create(handle, operation);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              const void* data, size_t bytes) {
  Operation& operation = behind(handle);
  const Value value{data, bytes};
  switch (attribute) {
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSA, operation.turn_a)
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSB, operation.turn_b)
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE, operation.epilogue)
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operation.bias)
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, operation.bias_type)
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, operation.target_sms)
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_FAST_ACCUM, operation.fast_accumulation)
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operation.a_scales.values)
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operation.b_scales.values)
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, operation.a_scales.mode)
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, operation.b_scales.mode)
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  return create(handle, Layout{type, rows, columns, leading});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* data,
                                                size_t bytes) {
  Layout& layout = behind(handle);
  const Value value{data, bytes};
  switch (attribute) {
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ROWS, layout.rows)
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_COLS, layout.columns)
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_LD, layout.leading)
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout.batch)
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout.stride)
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  return create(handle, Preference{});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* data,
                                                    size_t bytes) {
  Preference& preference = behind(handle);
  const Value value{data, bytes};
  switch (attribute) {
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, preference.workspace_bytes)
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, preference.a_alignment)
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, preference.b_alignment)
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, preference.c_alignment)
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, preference.d_alignment)
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

}  // extern "C"
