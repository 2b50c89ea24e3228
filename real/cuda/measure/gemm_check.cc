#include "real/cuda/measure/gemm_check.h"

#include <numeric>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/measure/transfer.h"

namespace plumbline::real::cuda {

namespace {

constexpr int sampled = 12;
constexpr std::uint64_t seed_rows = 11, seed_columns = 12;

}  // namespace

GemmSample::GemmSample(const ProductShape& shape, const ProductOperands& operands)
    : shape_(shape),
      operands_(operands),
      rows_(sampled_indices(shape.m, sampled, seed_rows)),
      columns_(sampled_indices(shape.n, sampled, seed_columns)) {}

Status GemmSample::apply_scales(bool of_x, std::int64_t index, std::vector<double>& values) const {
  const ScaleMode mode = of_x ? shape_.x_scale : shape_.w_scale;
  const float* scales = of_x ? operands_.x_scales : operands_.w_scales;
  const std::int64_t extent = of_x ? shape_.m : shape_.n;
  if (mode == ScaleMode::none) return {};
  const std::int64_t blocks = mode == ScaleMode::tensor ? 1 : tiles_of(shape_.k);
  std::int64_t first = 0, stride = 1;
  if (mode == ScaleMode::row_blocks) {
    first = row_scale_index(index, 0, extent);
    stride = row_scale_index(index, 1, extent) - first;
  } else if (mode == ScaleMode::square_blocks) {
    first = square_scale_index(index, 0, shape_.k);
  }
  std::vector<float> fetched;
  PLUMBLINE_TRY(fetch_strided(scales + first, blocks, stride, fetched));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= fetched[mode == ScaleMode::tensor ? 0 : i / static_cast<std::size_t>(scale_tile)];
  }
  return {};
}

Status GemmSample::operand_row(bool of_x, std::int64_t index, std::vector<double>& values) const {
  const void* data = of_x ? operands_.x : operands_.w;
  const bool contiguous = of_x ? shape_.x_k_contiguous : shape_.w_k_contiguous;
  const std::int64_t extent = of_x ? shape_.m : shape_.n;
  const std::int64_t first = contiguous ? index * shape_.k : index;
  const std::int64_t stride = contiguous ? 1 : extent;
  values.resize(static_cast<std::size_t>(shape_.k));
  if (shape_.operand == CUDA_R_16BF) {
    std::vector<Bf16> raw;
    PLUMBLINE_TRY(fetch_strided(static_cast<const Bf16*>(data) + first, shape_.k, stride, raw));
    for (std::size_t i = 0; i < raw.size(); ++i) values[i] = bf16_to_float(raw[i]);
  } else {
    std::vector<Fp8> raw;
    PLUMBLINE_TRY(fetch_strided(static_cast<const Fp8*>(data) + first, shape_.k, stride, raw));
    for (std::size_t i = 0; i < raw.size(); ++i) values[i] = fp8_to_float(raw[i]);
  }
  return apply_scales(of_x, index, values);
}

Status GemmSample::result_row(std::int64_t row, std::vector<double>& values) const {
  values.clear();
  if (shape_.result == CUDA_R_32F) {
    std::vector<float> raw;
    PLUMBLINE_TRY(fetch(static_cast<const float*>(operands_.d) + row * shape_.n, shape_.n, raw));
    for (const std::int64_t column : columns_) values.push_back(raw[static_cast<std::size_t>(column)]);
  } else {
    std::vector<Bf16> raw;
    PLUMBLINE_TRY(fetch(static_cast<const Bf16*>(operands_.d) + row * shape_.n, shape_.n, raw));
    for (const std::int64_t column : columns_) values.push_back(bf16_to_float(raw[static_cast<std::size_t>(column)]));
  }
  return {};
}

Status GemmSample::before() {
  start_.assign(rows_.size(), std::vector<double>(columns_.size(), 0.0));
  if (!shape_.accumulate) return {};
  for (std::size_t r = 0; r < rows_.size(); ++r) PLUMBLINE_TRY(result_row(rows_[r], start_[r]));
  return {};
}

Status GemmSample::after(Comparison& comparison) const {
  std::vector<std::vector<double>> w(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) PLUMBLINE_TRY(operand_row(false, columns_[c], w[c]));
  std::vector<double> x, got;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    PLUMBLINE_TRY(operand_row(true, rows_[r], x));
    PLUMBLINE_TRY(result_row(rows_[r], got));
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      comparison.add(got[c], std::inner_product(x.begin(), x.end(), w[c].begin(), start_[r][c]));
    }
  }
  return {};
}

}  // namespace plumbline::real::cuda
