// Rules for supported GEMMs: those of cuBLASLt's tables that the backend may ask for, as on Hopper.
#include <algorithm>
#include <cstdint>

#include "tests/support/host_gpu/cublaslt/gemms.h"

namespace plumbline::tests::host_gpu {
namespace {

// Alignment of FP8 GEMMs: 16 bytes along k, 8 elements across.
constexpr std::int64_t fp8_depth = 16, fp8_width = 8;

struct Extents {
  std::uint64_t rows, columns;
  bool operator==(const Extents& other) const { return rows == other.rows && columns == other.columns; }
};

Extents transposed(const Layout& layout, std::int32_t turn) {
  return turn == CUBLAS_OP_N ? Extents{layout.rows, layout.columns} : Extents{layout.columns, layout.rows};
}

bool is_matrix(const Layout& layout) {
  return layout.rows > 0 && layout.columns > 0 && layout.leading >= static_cast<std::int64_t>(layout.rows) &&
         layout.batch > 0;
}

bool fit(const Gemms& p) {
  const Extents a = transposed(p.a, p.operation.turn_a), b = transposed(p.b, p.operation.turn_b);
  const Extents c{p.c.rows, p.c.columns}, d{p.d.rows, p.d.columns};
  return a.columns == b.rows && d == Extents{a.rows, b.columns} && c == d && p.a.batch == p.b.batch &&
         p.a.batch == p.c.batch && p.a.batch == p.d.batch;
}

bool is_fp8(const Gemms& p) { return p.a.type == CUDA_R_8F_E4M3; }

bool formats_are_known(const Gemms& p) {
  const cudaDataType_t from = p.a.type, to = p.d.type;
  if (p.b.type != from || p.c.type != to) return false;
  if (p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && from != CUDA_R_32F) return false;
  const bool half = from == CUDA_R_16BF || from == CUDA_R_16F;
  if (is_fp8(p)) return to == CUDA_R_32F || to == CUDA_R_16BF || to == CUDA_R_16F;
  return to == CUDA_R_32F ? half || from == CUDA_R_32F : half && to == from;
}

bool forms_are_known(const Gemms& p) {
  const auto known = [](std::int32_t turn) { return turn == CUBLAS_OP_N || turn == CUBLAS_OP_T; };
  if (!is_fp8(p)) return known(p.operation.turn_a) && known(p.operation.turn_b);
  const auto along = [](const Layout& layout) {
    return static_cast<std::int64_t>(layout.rows) % fp8_depth == 0 && layout.leading % fp8_depth == 0;
  };
  return p.operation.turn_a == CUBLAS_OP_T && p.operation.turn_b == CUBLAS_OP_N && along(p.a) && along(p.b) &&
         p.d.rows % fp8_width == 0 && p.d.columns % fp8_width == 0;
}

// Scales are per block on both sides, with blocks of 128 x 128 on at most one.
bool scales_are_known(const Gemms& p) {
  const Scales &a = p.operation.a_scales, &b = p.operation.b_scales;
  constexpr std::int32_t one = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, row = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                         square = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  if (a.mode == one && b.mode == one) {
    const bool scaled = a.values != nullptr || b.values != nullptr;
    return is_fp8(p) || (!scaled && p.operation.fast_accumulation == 0);
  }
  const bool pair = (a.mode == row && (b.mode == row || b.mode == square)) || (a.mode == square && b.mode == row);
  return pair && is_fp8(p) && p.d.batch == 1 && p.operation.fast_accumulation == 0;
}

bool epilogue_is_known(const Gemms& p) {
  if (p.operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
  const cudaDataType_t wanted = is_fp8(p) && p.d.type == CUDA_R_32F ? CUDA_R_16BF : p.d.type;
  const std::int32_t given = p.operation.bias_type < 0 ? wanted : p.operation.bias_type;
  return p.operation.epilogue == CUBLASLT_EPILOGUE_BIAS && given == wanted;
}

}  // namespace

cublasStatus_t check(const Gemms& gemms) {
  const auto layouts = {&gemms.a, &gemms.b, &gemms.c, &gemms.d};
  if (!std::ranges::all_of(layouts, [](const Layout* layout) { return is_matrix(*layout); }) || !fit(gemms))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool known =
      formats_are_known(gemms) && forms_are_known(gemms) && scales_are_known(gemms) && epilogue_is_known(gemms);
  return known ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace plumbline::tests::host_gpu
