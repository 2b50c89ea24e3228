// Matrix products of training, in BF16 and in FP8 with scales per tensor or per block.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "real/cuda/cublaslt.h"
#include "real/cuda/kernels.h"
#include "real/cuda/probe/gemm_check.h"
#include "real/cuda/probe/operation.h"

namespace plumbline::real::cuda {

namespace {

constexpr std::uint64_t seed_x = 1, seed_w = 2, seed_d = 3, seed_x_scale = 4, seed_w_scale = 5;
// Random numbers reach 3.47; stored FP8 numbers then reach 448, and the scales bring them back.
constexpr float fp8_stored = fp8_largest / 3.47f;

std::int64_t element_bytes(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 1; }

// Forward and input gradient: activations with a scale per row and 128 columns, weights one per 128 x 128. Weight
// gradient: both operands are activations, with scales along the tokens.
ProductShape product_shape(const Case& what) {
  ProductShape shape;
  shape.m = what.m;
  shape.n = what.n;
  shape.k = what.k;
  shape.target_sms = static_cast<int>(what.target_sms);
  shape.fast_accumulation = what.fast_accumulation != 0;
  const bool weight_gradient = what.phase == "W";
  shape.accumulate = weight_gradient;
  shape.result = weight_gradient ? CUDA_R_32F : CUDA_R_16BF;
  if (what.format == "bf16") {
    // As the tensors lie in training: w is [out,in], activations are [tokens,...]. FP8 has had them transposed.
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

class Gemm : public Operation {
 public:
  explicit Gemm(const Case& what) : what_(what), shape_(product_shape(what)) {
    x_count_ = shape_.m * shape_.k;
    w_count_ = shape_.n * shape_.k;
    d_count_ = shape_.m * shape_.n;
    x_scale_count_ = scale_count(shape_.x_scale, shape_.m, shape_.k);
    w_scale_count_ = scale_count(shape_.w_scale, shape_.n, shape_.k);
  }

  Status prepare(Toolbox& tools) override {
    if (!tools.cublaslt) return {"missing library: " + tools.cublaslt_error};
    workspace_ = tools.workspace.as<void>();
    const std::int64_t operand = element_bytes(shape_.operand), groups = what_.groups;
    PLUMBLINE_TRY(x_.allocate(x_count_ * operand * groups));
    PLUMBLINE_TRY(w_.allocate(w_count_ * operand * groups));
    PLUMBLINE_TRY(d_.allocate(d_count_ * element_bytes(shape_.result) * groups));
    PLUMBLINE_TRY(x_scales_.allocate(x_scale_count_ * 4 * groups));
    PLUMBLINE_TRY(w_scales_.allocate(w_scale_count_ * 4 * groups));
    PLUMBLINE_TRY(fill(tools.stream));
    shape_.alignment = alignment();
    product_ = std::make_unique<Product>(*tools.cublaslt);
    PLUMBLINE_TRY(product_->prepare(shape_, operands(0), tools.workspace.bytes()));
    PLUMBLINE_TRY(find_working_algorithm(tools.stream));
    return outcome(cudaStreamSynchronize(tools.stream), "preparing the product");
  }

  Status run(cudaStream_t stream) override {
    for (std::int64_t group = 0; group < what_.groups; ++group) {
      PLUMBLINE_TRY(product_->run(operands(group), workspace_, stream));
    }
    return {};
  }

  Status check(Toolbox& tools, CheckOutcome& result) override {
    const std::int64_t bytes = d_.bytes();
    // All bits set is NaN. An accumulating product needs numbers: random ones of the size of the product.
    PLUMBLINE_TRY(shape_.accumulate
                      ? outcome(fill_float(d_.as<float>(), d_count_ * what_.groups, seed_d, start_size(), tools.stream),
                                "filling the result")
                      : outcome(cudaMemsetAsync(d_.as<void>(), 0xff, static_cast<std::size_t>(bytes), tools.stream),
                                "poisoning the result"));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "preparing the check"));
    std::vector<std::int64_t> groups = {0};
    if (what_.groups > 1) groups.push_back(what_.groups - 1);
    std::vector<std::unique_ptr<GemmSample>> samples;
    for (const std::int64_t group : groups) {
      samples.push_back(std::make_unique<GemmSample>(shape_, operands(group)));
      PLUMBLINE_TRY(samples.back()->before());
    }
    PLUMBLINE_TRY(run(tools.stream));
    PLUMBLINE_TRY(outcome(cudaStreamSynchronize(tools.stream), "running the product"));
    Comparison comparison;
    for (const auto& sample : samples) PLUMBLINE_TRY(sample->after(comparison));
    result = comparison.outcome(what_.format == "bf16" ? bf16_tolerance : fp8_tolerance);
    return count_unwritten(tools.stream, result);
  }

  JsonLine algorithm() const override { return product_->algorithm(); }

 private:
  ProductOperands operands(std::int64_t group) const {
    const std::int64_t operand = element_bytes(shape_.operand);
    ProductOperands at;
    at.x = x_.as<std::byte>() + group * x_count_ * operand;
    at.w = w_.as<std::byte>() + group * w_count_ * operand;
    at.d = d_.as<std::byte>() + group * d_count_ * element_bytes(shape_.result);
    at.x_scales = x_scale_count_ > 0 ? x_scales_.as<float>() + group * x_scale_count_ : nullptr;
    at.w_scales = w_scale_count_ > 0 ? w_scales_.as<float>() + group * w_scale_count_ : nullptr;
    return at;
  }

  // What the start of every group's operands keeps, up to the 256 bytes of an allocation.
  int alignment() const {
    std::int64_t kept = 256;
    const std::int64_t operand = element_bytes(shape_.operand);
    if (what_.groups == 1) return static_cast<int>(kept);
    for (const std::int64_t bytes : {x_count_ * operand, w_count_ * operand, d_count_ * element_bytes(shape_.result)}) {
      while (bytes % kept != 0) kept /= 2;
    }
    return static_cast<int>(kept);
  }

  // The standard deviation of a sum of k products of two standard normal numbers.
  float start_size() const { return std::sqrt(static_cast<float>(shape_.k)); }

  Status fill(cudaStream_t stream) {
    const std::int64_t groups = what_.groups;
    const auto fill_operand = [&](DeviceMemory& to, std::int64_t count, std::uint64_t seed) {
      return shape_.operand == CUDA_R_16BF ? fill_bf16(to.as<Bf16>(), count * groups, seed, 1.0f, stream)
                                           : fill_fp8(to.as<Fp8>(), count * groups, seed, fp8_stored, stream);
    };
    PLUMBLINE_TRY(outcome(fill_operand(x_, x_count_, seed_x), "filling X"));
    PLUMBLINE_TRY(outcome(fill_operand(w_, w_count_, seed_w), "filling W"));
    if (x_scale_count_ > 0) {
      PLUMBLINE_TRY(
          outcome(fill_scales(x_scales_.as<float>(), x_scale_count_ * groups, seed_x_scale, 1.0f / fp8_stored, stream),
                  "filling scales"));
      PLUMBLINE_TRY(
          outcome(fill_scales(w_scales_.as<float>(), w_scale_count_ * groups, seed_w_scale, 1.0f / fp8_stored, stream),
                  "filling scales"));
    }
    // Accumulating products read D before anything has written it.
    return outcome(cudaMemsetAsync(d_.as<void>(), 0, static_cast<std::size_t>(d_.bytes()), stream), "clearing D");
  }

  // The library proposes algorithms in order of expected speed; one that refuses to run is passed over.
  Status find_working_algorithm(cudaStream_t stream) {
    Status attempt = product_->run(operands(0), workspace_, stream);
    while (!attempt.ok() && product_->try_next()) attempt = product_->run(operands(0), workspace_, stream);
    return attempt;
  }

  Status count_unwritten(cudaStream_t stream, CheckOutcome& result) const {
    DeviceMemory counter;
    PLUMBLINE_TRY(counter.allocate(8));
    auto* count = counter.as<unsigned long long>();
    PLUMBLINE_TRY(outcome(cudaMemsetAsync(count, 0, sizeof *count, stream), "clearing a counter"));
    const std::int64_t elements = d_count_ * what_.groups;
    PLUMBLINE_TRY(outcome(shape_.result == CUDA_R_32F ? count_not_finite(d_.as<float>(), elements, count, stream)
                                                      : count_not_finite(d_.as<Bf16>(), elements, count, stream),
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

  Case what_;
  ProductShape shape_;
  std::int64_t x_count_ = 0, w_count_ = 0, d_count_ = 0, x_scale_count_ = 0, w_scale_count_ = 0;  // per group
  DeviceMemory x_, w_, d_, x_scales_, w_scales_;
  void* workspace_ = nullptr;
  std::unique_ptr<Product> product_;
};

}  // namespace

std::unique_ptr<Operation> make_gemm(const Case& what) { return std::make_unique<Gemm>(what); }

}  // namespace plumbline::real::cuda
