#include "real/cuda/vendor/cublaslt.h"

#include <nlohmann/json.hpp>

namespace plumbline::real::cuda {

CublasLt::~CublasLt() {
  if (handle != nullptr) destroy(handle);
}

std::unique_ptr<CublasLt> CublasLt::open(const std::vector<std::string>& folders, std::string& error) {
  auto lt = std::make_unique<CublasLt>();
  lt->library = Library::open(known_library("cuBLASLt"), folders, error);
  if (!lt->library) return nullptr;
#define LOAD(member, name) lt->library->load(lt->member, #name, error);
  PLUMBLINE_CUBLASLT_FUNCTIONS(LOAD)
#undef LOAD
  if (!error.empty()) return nullptr;
  if (const Status created = lt->outcome(lt->create(&lt->handle), "cublasLtCreate"); !created.ok()) {
    error = created.failure;
    lt->handle = nullptr;
    return nullptr;
  }
  return lt;
}

Status CublasLt::outcome(cublasStatus_t status, const char* doing) const {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return {std::string(doing) + " failed: " + status_string(status)};
}

namespace {

// The first version of cuBLASLt whose FP8 GEMMs take scales per block.
constexpr std::size_t block_scale_version = 120900;

std::int32_t scale_mode(ScaleMode mode) {
  switch (mode) {
    case ScaleMode::row_blocks:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case ScaleMode::square_blocks:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    default:
      return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  }
}

bool by_block(ScaleMode mode) { return mode == ScaleMode::row_blocks || mode == ScaleMode::square_blocks; }

}  // namespace

GemmPlan::~GemmPlan() {
  if (a_ != nullptr) lt_.layout_destroy(a_);
  if (b_ != nullptr) lt_.layout_destroy(b_);
  if (d_ != nullptr) lt_.layout_destroy(d_);
  if (operation_ != nullptr) lt_.operation_destroy(operation_);
}

Status GemmPlan::describe_operation(const GemmShape& shape) {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value, const char* doing) {
    return lt_.outcome(lt_.operation_set(operation_, attribute, &value, sizeof value), doing);
  };
  const cublasComputeType_t compute = shape.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  PLUMBLINE_TRY(lt_.outcome(lt_.operation_create(&operation_, compute, CUDA_R_32F), "cublasLtMatmulDescCreate"));
  const ColumnMajorGemm gemm = column_major(shape);
  const cublasOperation_t a = gemm.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t b = gemm.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  PLUMBLINE_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, a, "setting the form of W"));
  PLUMBLINE_TRY(set(CUBLASLT_MATMUL_DESC_TRANSB, b, "setting the form of X"));
  if (shape.target_sms > 0) {
    const std::int32_t sms = shape.target_sms;
    PLUMBLINE_TRY(set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, sms, "setting the SM count target"));
  }
  if (shape.fast_accumulation) {
    const std::int8_t on = 1;
    PLUMBLINE_TRY(set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, on, "setting fast accumulation"));
  }
  if (shape.bias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;  // one number per row of the library's D: our column
    PLUMBLINE_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue, "asking for a bias"));
    const cudaDataType_t type = shape.result;
    PLUMBLINE_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type, "setting the format of the bias"));
  }
  // Set only if needed: a library without these modes does not have the attribute either.
  if (by_block(shape.w_scale) || by_block(shape.x_scale)) {
    if (lt_.version() < block_scale_version) return {"block scales need cuBLASLt 12.9 or newer"};
    const std::int32_t w = scale_mode(shape.w_scale), x = scale_mode(shape.x_scale);
    PLUMBLINE_TRY(set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, w, "setting the scale mode of W"));
    PLUMBLINE_TRY(set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, x, "setting the scale mode of X"));
  }
  return {};
}

Status GemmPlan::set_scales(const GemmOperands& operands) {
  if (operands.w_scales == nullptr || operands.x_scales == nullptr) return {};
  if (operands.w_scales == w_scales_ && operands.x_scales == x_scales_) return {};
  const void* w = operands.w_scales;
  const void* x = operands.x_scales;
  PLUMBLINE_TRY(lt_.outcome(lt_.operation_set(operation_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &w, sizeof w),
                            "setting the scales of W"));
  PLUMBLINE_TRY(lt_.outcome(lt_.operation_set(operation_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &x, sizeof x),
                            "setting the scales of X"));
  w_scales_ = operands.w_scales;
  x_scales_ = operands.x_scales;
  return {};
}

Status GemmPlan::set_bias(const GemmOperands& operands) {
  if (operands.bias == bias_) return {};
  bias_ = operands.bias;
  return lt_.outcome(lt_.operation_set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias_, sizeof bias_),
                     "setting the bias");
}

Status GemmPlan::create_layout(cublasLtMatrixLayout_t& layout, cudaDataType_t type, const ColumnMajor& matrix,
                               std::int64_t batch) {
  PLUMBLINE_TRY(lt_.outcome(lt_.layout_create(&layout, type, static_cast<std::uint64_t>(matrix.rows),
                                              static_cast<std::uint64_t>(matrix.columns), matrix.leading),
                            "cublasLtMatrixLayoutCreate"));
  if (batch == 1) return {};
  const auto count = static_cast<std::int32_t>(batch);
  const std::int64_t distance = matrix.batch_stride;
  PLUMBLINE_TRY(lt_.outcome(lt_.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
                            "setting the number of GEMMs"));
  return lt_.outcome(lt_.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &distance, sizeof distance),
                     "setting the stride of GEMMs");
}

Status GemmPlan::create_layouts(const GemmShape& shape) {
  const ColumnMajorGemm gemm = column_major(shape);
  PLUMBLINE_TRY(create_layout(a_, shape.operand, gemm.a, shape.batch));
  PLUMBLINE_TRY(create_layout(b_, shape.operand, gemm.b, shape.batch));
  return create_layout(d_, shape.result, gemm.d, shape.batch);
}

Status GemmPlan::choose_algorithm(std::int64_t workspace_bytes, int alignment) {
  cublasLtMatmulPreference_t preference = nullptr;
  PLUMBLINE_TRY(lt_.outcome(lt_.preference_create(&preference), "cublasLtMatmulPreferenceCreate"));
  const auto bytes = static_cast<std::size_t>(workspace_bytes);
  cublasStatus_t status =
      lt_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
  const auto least = static_cast<std::uint32_t>(alignment);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    if (status == CUBLAS_STATUS_SUCCESS) status = lt_.preference_set(preference, attribute, &least, sizeof least);
  }
  if (status == CUBLAS_STATUS_SUCCESS)
    status = lt_.heuristic(lt_.handle, operation_, a_, b_, d_, d_, preference, candidates, found_, &found_count_);
  lt_.preference_destroy(preference);
  if (status == CUBLAS_STATUS_SUCCESS && found_count_ == 0) status = CUBLAS_STATUS_NOT_SUPPORTED;
  chosen_ = 0;
  return lt_.outcome(status, "finding an algorithm (cublasLtMatmulAlgoGetHeuristic)");
}

Status GemmPlan::prepare(const GemmShape& shape, const GemmOperands& operands, std::int64_t workspace_bytes) {
  accumulate_ = shape.accumulate;
  PLUMBLINE_TRY(describe_operation(shape));
  PLUMBLINE_TRY(set_scales(operands));
  PLUMBLINE_TRY(set_bias(operands));
  PLUMBLINE_TRY(create_layouts(shape));
  return choose_algorithm(workspace_bytes, shape.alignment);
}

Status GemmPlan::resize_layout(cublasLtMatrixLayout_t layout, const ColumnMajor& matrix) {
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    return lt_.outcome(lt_.layout_set(layout, attribute, &value, sizeof value), "setting the extents of a matrix");
  };
  PLUMBLINE_TRY(set(CUBLASLT_MATRIX_LAYOUT_ROWS, static_cast<std::uint64_t>(matrix.rows)));
  PLUMBLINE_TRY(set(CUBLASLT_MATRIX_LAYOUT_COLS, static_cast<std::uint64_t>(matrix.columns)));
  return set(CUBLASLT_MATRIX_LAYOUT_LD, matrix.leading);
}

Status GemmPlan::resize(const GemmShape& shape) {
  const ColumnMajorGemm gemm = column_major(shape);
  PLUMBLINE_TRY(resize_layout(a_, gemm.a));
  PLUMBLINE_TRY(resize_layout(b_, gemm.b));
  return resize_layout(d_, gemm.d);
}

Status GemmPlan::run(const GemmOperands& operands, void* workspace, cudaStream_t stream) {
  PLUMBLINE_TRY(set_scales(operands));
  PLUMBLINE_TRY(set_bias(operands));
  const float alpha = operands.factor, beta = accumulate_ ? 1.0f : 0.0f;
  const cublasLtMatmulHeuristicResult_t& chosen = found_[chosen_];
  return lt_.outcome(lt_.matmul(lt_.handle, operation_, &alpha, operands.w, a_, operands.x, b_, &beta, operands.d, d_,
                                operands.d, d_, &chosen.algo, workspace, chosen.workspaceSize, stream),
                     "cublasLtMatmul");
}

bool GemmPlan::try_next() {
  if (chosen_ + 1 >= found_count_) return false;
  ++chosen_;
  return true;
}

std::string GemmPlan::algorithm() const {
  nlohmann::ordered_json object = {{"library", "cublasLt"}, {"version", lt_.version()}};
  const cublasLtMatmulHeuristicResult_t& chosen = found_[chosen_];
  const auto add = [&](const char* key, cublasLtMatmulAlgoConfigAttributes_t attribute, auto value) {
    std::size_t written = 0;
    const cublasStatus_t status = lt_.algorithm_get(&chosen.algo, attribute, &value, sizeof value, &written);
    if (status == CUBLAS_STATUS_SUCCESS && written == sizeof value) object[key] = value;
  };
  add("id", CUBLASLT_ALGO_CONFIG_ID, std::int32_t{0});
  add("tile_id", CUBLASLT_ALGO_CONFIG_TILE_ID, std::uint32_t{0});
  add("stages_id", CUBLASLT_ALGO_CONFIG_STAGES_ID, std::uint32_t{0});
  add("cluster_shape_id", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, std::uint16_t{0});
  add("split_k", CUBLASLT_ALGO_CONFIG_SPLITK_NUM, std::int32_t{0});
  object["waves"] = static_cast<double>(chosen.wavesCount);
  object["workspace_bytes"] = chosen.workspaceSize;
  object["candidate"] = chosen_;
  return object.dump();
}

}  // namespace plumbline::real::cuda
