#include "real/cuda/measure/detail/gemm_data.h"

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/measure/comparison.h"
#include "real/cuda/measure/transfer.h"

namespace plumbline::real::cuda {
namespace {

constexpr int sampled_per_side = 12;
constexpr std::uint64_t seed_rows = 11, seed_columns = 12;

// A sample of a GEMM's entries, recomputed in double precision on the host: sampled rows times sampled columns of D,
// corners included.
class GemmSample {
 public:
  GemmSample(const GemmShape& shape, const GemmOperands& operands)
      : shape_(shape),
        operands_(operands),
        rows_(sampled_indices(shape.m, sampled_per_side, seed_rows)),
        columns_(sampled_indices(shape.n, sampled_per_side, seed_columns)) {}

  // Stores the entries of an accumulating GEMM before it runs.
  Status before() {
    start_.assign(rows_.size(), std::vector<double>(columns_.size(), 0.0));
    if (!shape_.accumulate) return {};
    for (std::size_t r = 0; r < rows_.size(); ++r) PLUMBLINE_TRY(result_row(rows_[r], start_[r]));
    return {};
  }

  // Compares the entries with X W plus what was there before.
  Status after(Comparison& comparison) const {
    std::vector<std::vector<double>> w(columns_.size());
    for (std::size_t c = 0; c < columns_.size(); ++c) PLUMBLINE_TRY(operand_row(false, columns_[c], w[c]));
    std::vector<double> x, got;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      PLUMBLINE_TRY(operand_row(true, rows_[r], x));
      PLUMBLINE_TRY(result_row(rows_[r], got));
      for (std::size_t c = 0; c < columns_.size(); ++c)
        comparison.add(got[c], std::inner_product(x.begin(), x.end(), w[c].begin(), start_[r][c]));
    }
    return {};
  }

 private:
  // Returns row `index` of an operand as true values, with its scales applied.
  Status operand_row(bool of_x, std::int64_t index, std::vector<double>& values) const {
    const void* data = of_x ? operands_.x : operands_.w;
    const bool contiguous = of_x ? shape_.x_k_contiguous : shape_.w_k_contiguous;
    const std::int64_t extent = of_x ? shape_.m : shape_.n;
    const std::int64_t first = contiguous ? index * shape_.k : index;
    const std::int64_t stride = contiguous ? 1 : extent;
    PLUMBLINE_TRY(shape_.operand == CUDA_R_16BF
                      ? fetch_numbers<Bf16>(data, first, shape_.k, stride, bf16_to_float, values)
                      : fetch_numbers<Fp8>(data, first, shape_.k, stride, fp8_to_float, values));
    return apply_scales(of_x, index, values);
  }

  Status apply_scales(bool of_x, std::int64_t index, std::vector<double>& values) const {
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
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] *= fetched[mode == ScaleMode::tensor ? 0 : i / static_cast<std::size_t>(scale_tile)];
    return {};
  }

  Status result_row(std::int64_t row, std::vector<double>& values) const {
    std::vector<double> all;
    const std::int64_t first = row * shape_.n;
    PLUMBLINE_TRY(shape_.result == CUDA_R_32F
                      ? fetch_numbers<float>(operands_.d, first, shape_.n, 1, std::identity(), all)
                      : fetch_bf16(operands_.d, first, shape_.n, all));
    values.clear();
    for (const std::int64_t column : columns_) values.push_back(all[static_cast<std::size_t>(column)]);
    return {};
  }

  GemmShape shape_;
  GemmOperands operands_;
  std::vector<std::int64_t> rows_, columns_;
  std::vector<std::vector<double>> start_;  // per sampled row, at the sampled columns
};

constexpr std::uint64_t seed_x = 1, seed_w = 2, seed_d = 3, seed_x_scale = 4, seed_w_scale = 5;
// Random numbers reach 3.47. Stored FP8 numbers are scaled to reach 448, and the scales reverse that.
constexpr float fp8_stored = fp8_largest / 3.47f;

std::int64_t element_bytes(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 1; }

// In forward and input gradient, activations have a scale per row and 128 columns, weights one per 128 x 128. In the
// weight gradient both operands are activations, with scales along the tokens.
GemmShape gemm_shape(const KernelCase& what, std::int64_t rows) {
  GemmShape shape;
  const bool weight_gradient = what.phase == "W";
  shape.m = weight_gradient ? what.m : rows;
  shape.n = what.n;
  shape.k = weight_gradient ? rows : what.k;
  shape.target_sms = static_cast<int>(what.target_sms);
  shape.fast_accumulation = what.fast_accumulation != 0;
  shape.accumulate = weight_gradient;
  shape.result = weight_gradient ? CUDA_R_32F : CUDA_R_16BF;
  if (what.format == "bf16") {
    // Layouts are those of training: w is [out,in], activations are [tokens,...]. FP8 operands are transposed before.
    shape.x_k_contiguous = !weight_gradient;
    shape.w_k_contiguous = what.phase == "F";
    return shape;
  }
  shape.operand = CUDA_R_8F_E4M3;
  const bool tensor = what.format == "fp8_tensor";
  shape.x_scale = tensor ? ScaleMode::tensor : ScaleMode::row_blocks;
  shape.w_scale = tensor ? ScaleMode::tensor : weight_gradient ? ScaleMode::row_blocks : ScaleMode::square_blocks;
  return shape;
}

std::int64_t scale_count(ScaleMode mode, std::int64_t rows, std::int64_t k) {
  switch (mode) {
    case ScaleMode::none:
      return 0;
    case ScaleMode::tensor:
      return 4;  // one is used; four keep the next group's 16-byte aligned
    case ScaleMode::row_blocks:
      return row_scale_count(rows, k);
    case ScaleMode::square_blocks:
      return square_scale_count(rows, k);
  }
  return 0;
}

}  // namespace

GemmData::GemmData(const KernelCase& what) : tolerance_(what.format == "bf16" ? bf16_tolerance : fp8_tolerance) {
  for (const std::int64_t rows : group_rows(what)) {
    end_.shape = gemm_shape(what, rows);
    const GemmShape& shape = end_.shape;
    groups_.push_back(end_);
    end_.x += shape.m * shape.k;
    end_.w += shape.n * shape.k;
    end_.d += shape.m * shape.n;
    end_.x_scales += scale_count(shape.x_scale, shape.m, shape.k);
    end_.w_scales += scale_count(shape.w_scale, shape.n, shape.k);
  }
  align();
}

void GemmData::align() {
  const std::int64_t operand = element_bytes(end_.shape.operand), result = element_bytes(end_.shape.result);
  int kept = 256;  // alignment of an allocation
  for (const Group& group : groups_) {
    for (const std::int64_t bytes : {group.x * operand, group.w * operand, group.d * result})
      while (bytes % kept != 0) kept /= 2;
  }
  for (Group& group : groups_) group.shape.alignment = kept;
}

GemmOperands GemmData::operands(std::size_t index) const {
  const Group& group = groups_[index];
  const std::int64_t operand = element_bytes(group.shape.operand);
  GemmOperands at;
  at.x = x_.as<std::byte>() + group.x * operand;
  at.w = w_.as<std::byte>() + group.w * operand;
  at.d = d_.as<std::byte>() + group.d * element_bytes(group.shape.result);
  at.x_scales = end_.x_scales > 0 ? x_scales_.as<float>() + group.x_scales : nullptr;
  at.w_scales = end_.w_scales > 0 ? w_scales_.as<float>() + group.w_scales : nullptr;
  return at;
}

Status GemmData::allocate_and_fill(cudaStream_t stream) {
  const std::int64_t operand = element_bytes(end_.shape.operand);
  PLUMBLINE_TRY(x_.allocate(end_.x * operand));
  PLUMBLINE_TRY(w_.allocate(end_.w * operand));
  PLUMBLINE_TRY(d_.allocate(end_.d * element_bytes(end_.shape.result)));
  PLUMBLINE_TRY(x_scales_.allocate(end_.x_scales * 4));
  PLUMBLINE_TRY(w_scales_.allocate(end_.w_scales * 4));
  const auto fill_operand = [&](DeviceMemory& to, std::int64_t count, std::uint64_t seed) {
    return end_.shape.operand == CUDA_R_16BF ? fill_bf16(to.as<Bf16>(), count, seed, 1.0f, stream)
                                             : fill_fp8(to.as<Fp8>(), count, seed, fp8_stored, stream);
  };
  PLUMBLINE_TRY(outcome(fill_operand(x_, end_.x, seed_x), "filling X"));
  PLUMBLINE_TRY(outcome(fill_operand(w_, end_.w, seed_w), "filling W"));
  const auto scales = [&](DeviceMemory& to, std::int64_t count, std::uint64_t seed) {
    return count == 0 ? cudaSuccess : fill_scales(to.as<float>(), count, seed, 1.0f / fp8_stored, stream);
  };
  PLUMBLINE_TRY(outcome(scales(x_scales_, end_.x_scales, seed_x_scale), "filling scales"));
  PLUMBLINE_TRY(outcome(scales(w_scales_, end_.w_scales, seed_w_scale), "filling scales"));
  return d_.set(0, stream, "clearing D");
}

// NaN has all bits set. An accumulating GEMM needs numbers instead: random ones of the magnitude of its result.
Status GemmData::poison(cudaStream_t stream) const {
  const GemmShape& shape = end_.shape;
  if (!shape.accumulate) return d_.set(0xff, stream, "poisoning the result");
  // The standard deviation of a sum of k terms, each of two standard normal numbers multiplied.
  const float size = std::sqrt(static_cast<float>(shape.k));
  return outcome(fill_float(d_.as<float>(), end_.d, seed_d, size, stream), "filling the result");
}

Status GemmData::check(const std::function<Status(cudaStream_t)>& run, Toolbox& tools, CheckOutcome& result) const {
  PLUMBLINE_TRY(poison(tools.stream));
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "preparing the check"));
  std::vector<std::size_t> sampled = {0};
  if (groups() > 1) sampled.push_back(groups() - 1);
  std::vector<std::unique_ptr<GemmSample>> samples;
  for (const std::size_t group : sampled) {
    samples.push_back(std::make_unique<GemmSample>(shape(group), operands(group)));
    PLUMBLINE_TRY(samples.back()->before());
  }
  PLUMBLINE_TRY(run(tools.stream));
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "running the GEMM"));
  Comparison comparison;
  for (const auto& sample : samples) PLUMBLINE_TRY(sample->after(comparison));
  result = comparison.outcome(tolerance_);
  return count_unwritten(tools.stream, result);
}

Status GemmData::count_unwritten(cudaStream_t stream, CheckOutcome& result) const {
  DeviceMemory counter;
  PLUMBLINE_TRY(counter.allocate(8));
  auto* count = counter.as<unsigned long long>();
  PLUMBLINE_TRY(outcome(cudaMemsetAsync(count, 0, sizeof *count, stream), "clearing a counter"));
  PLUMBLINE_TRY(outcome(end_.shape.result == CUDA_R_32F ? count_not_finite(d_.as<float>(), end_.d, count, stream)
                                                        : count_not_finite(d_.as<Bf16>(), end_.d, count, stream),
                        "counting unwritten entries"));
  PLUMBLINE_TRY(outcome(cudaStreamSynchronize(stream), "counting unwritten entries"));
  unsigned long long found = 0;
  PLUMBLINE_TRY(outcome(cudaMemcpy(&found, count, sizeof found, cudaMemcpyDeviceToHost), "reading a counter"));
  if (found > 0) {
    result.ok = false;
    result.note = std::to_string(found) + " entries are not finite or were not written";
  }
  return {};
}

}  // namespace plumbline::real::cuda
