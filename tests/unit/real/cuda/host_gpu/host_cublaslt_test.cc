// The library in place of cuBLASLt, called as the backend calls the real one: GEMMs of every format and form compared
// with double precision.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/memory.h"
#include "real/cuda/vendor/cublaslt.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t workspace_bytes = 1 << 20;

// Sums are of up to 528 terms of about 1, in FP32.
constexpr double sum_tolerance = 5e-4;

// Numbers of a format in memory, which starts as NaN.
class Numbers {
 public:
  Numbers(cudaDataType_t type, std::int64_t count) : type_(type), count_(count) {
    EXPECT_TRUE(memory_.allocate(count * static_cast<std::int64_t>(sizeof(float))).ok());
  }

  std::int64_t count() const { return count_; }
  void* data() const { return memory_.as<void>(); }
  double get(std::int64_t at) const {
    if (type_ == CUDA_R_32F) return memory_.as<float>()[at];
    if (type_ == CUDA_R_16BF) return bf16_to_float(memory_.as<Bf16>()[at]);
    if (type_ == CUDA_R_16F) return fp16_to_float(memory_.as<std::uint16_t>()[at]);
    return fp8_to_float(memory_.as<Fp8>()[at]);
  }
  void set(std::int64_t at, float value) {
    if (type_ == CUDA_R_32F) memory_.as<float>()[at] = value;
    if (type_ == CUDA_R_16BF) memory_.as<Bf16>()[at] = float_to_bf16(value);
    if (type_ == CUDA_R_16F) memory_.as<std::uint16_t>()[at] = float_to_fp16(value);
    if (type_ == CUDA_R_8F_E4M3) memory_.as<Fp8>()[at] = float_to_fp8(value);
  }
  void fill(std::uint64_t seed, float factor = 1) {
    for (std::int64_t at = 0; at < count_; ++at) set(at, factor * random_normal(seed, static_cast<std::uint64_t>(at)));
  }

 private:
  cudaDataType_t type_;
  std::int64_t count_;
  DeviceMemory memory_;
};

// Row-major matrices of a batch.
struct Place {
  std::int64_t rows, columns, stride, batch_stride;

  Place(std::int64_t r, std::int64_t c, std::int64_t between, std::int64_t batches)
      : rows(r), columns(c), stride(between > 0 ? between : c), batch_stride(batches) {}
  std::int64_t at(std::int64_t batch, std::int64_t row, std::int64_t column) const {
    return batch * batch_stride + row * stride + column;
  }
  std::int64_t count(std::int64_t batch) const { return at(batch - 1, rows - 1, columns - 1) + 1; }
};

// X or W: `extent` vectors of k numbers.
class Operand {
 public:
  Operand(const GemmShape& s, bool x)
      : extent_(x ? s.m : s.n),
        k_(s.k),
        contiguous_(x ? s.x_k_contiguous : s.w_k_contiguous),
        mode_(x ? s.x_scale : s.w_scale),
        place_(contiguous_ ? extent_ : k_, contiguous_ ? k_ : extent_, x ? s.x_stride : s.w_stride,
               x ? s.x_batch_stride : s.w_batch_stride),
        stored_(s.operand, place_.count(s.batch)),
        scales_(CUDA_R_32F, std::max(row_scale_count(extent_, k_), square_scale_count(extent_, k_))) {
    fill(x ? 1 : 2);
  }

  // FP8 values are stored at a large magnitude, which scales reduce.
  void fill(std::uint64_t seed) {
    const bool scaled = mode_ != ScaleMode::none;
    stored_.fill(seed, scaled ? 100.0f : 1.0f);
    for (std::int64_t at = 0; at < scales_.count(); ++at)
      scales_.set(at, 0.005f * static_cast<float>(1 + random_bits(seed + 10, static_cast<std::uint64_t>(at)) % 5));
  }
  // Returns the true values of each vector.
  std::vector<std::vector<double>> vectors(std::int64_t batch) const {
    std::vector<std::vector<double>> vectors(static_cast<std::size_t>(extent_));
    for (std::int64_t vector = 0; vector < extent_; ++vector)
      for (std::int64_t depth = 0; depth < k_; ++depth) {
        const std::int64_t at = contiguous_ ? place_.at(batch, vector, depth) : place_.at(batch, depth, vector);
        vectors[static_cast<std::size_t>(vector)].push_back(stored_.get(at) * scale(vector, depth / scale_tile));
      }
    return vectors;
  }
  const void* data() const { return stored_.data(); }
  const float* scales() const { return mode_ == ScaleMode::none ? nullptr : static_cast<const float*>(scales_.data()); }

 private:
  double scale(std::int64_t vector, std::int64_t block) const {
    switch (mode_) {
      case ScaleMode::tensor:
        return scales_.get(0);
      case ScaleMode::row_blocks:
        return scales_.get(row_scale_index(vector, block, extent_));
      case ScaleMode::square_blocks:
        return scales_.get(square_scale_index(vector, block, k_));
      default:
        return 1;
    }
  }

  std::int64_t extent_, k_;
  bool contiguous_;
  ScaleMode mode_;
  Place place_;
  Numbers stored_, scales_;
};

// A GEMM's matrices and the expected contents of D.
class Matrices {
 public:
  explicit Matrices(const GemmShape& shape, float factor = 1)
      : shape_(shape),
        factor_(factor),
        x_(shape, true),
        w_(shape, false),
        place_(shape.m, shape.n, shape.d_stride, shape.d_batch_stride),
        d_(shape.result, place_.count(shape.batch)),
        bias_(shape.result, shape.n) {
    if (shape.accumulate) d_.fill(3, 10);
    bias_.fill(4, 10);
    for (std::int64_t at = 0; at < d_.count(); ++at) before_.push_back(d_.get(at));
  }

  Operand& x() { return x_; }
  GemmOperands operands() const {
    GemmOperands o{x_.data(), w_.data(), d_.data(), x_.scales(), w_.scales()};
    if (shape_.bias) o.bias = bias_.data();
    o.factor = factor_;
    return o;
  }
  // Compares all of D's memory: between its rows nothing has changed.
  void expect_result() const {
    const std::vector<double> expected = result();
    const double step = shape_.result == CUDA_R_32F ? 0x1p-24 : shape_.result == CUDA_R_16F ? 0x1p-11 : 0x1p-8;
    for (std::int64_t at = 0; at < d_.count(); ++at) {
      const double value = expected[static_cast<std::size_t>(at)], got = d_.get(at);
      if (std::isnan(value))
        ASSERT_TRUE(std::isnan(got)) << "place " << at;
      else
        ASSERT_NEAR(got, value, std::abs(value) * step + sum_tolerance) << "place " << at;
    }
  }

 private:
  std::vector<double> result() const {
    std::vector<double> result = before_;
    for (std::int64_t batch = 0; batch < shape_.batch; ++batch) {
      const auto x = x_.vectors(batch), w = w_.vectors(batch);
      for (std::size_t row = 0; row < x.size(); ++row)
        for (std::size_t column = 0; column < w.size(); ++column) {
          const auto at = static_cast<std::int64_t>(column);
          double& d = result[static_cast<std::size_t>(place_.at(batch, static_cast<std::int64_t>(row), at))];
          const double sum = std::inner_product(x[row].begin(), x[row].end(), w[column].begin(), 0.0);
          d = (shape_.accumulate ? d : 0) + factor_ * sum + (shape_.bias ? bias_.get(at) : 0);
        }
    }
    return result;
  }

  GemmShape shape_;
  float factor_;
  Operand x_, w_;
  Place place_;
  Numbers d_, bias_;
  std::vector<double> before_;
};

class HostCublasLt : public testing::Test {
 protected:
  HostCublasLt() {
    std::string error;
    library_ = CublasLt::open({PLUMBLINE_HOST_CUBLASLT_DIR}, error);
    EXPECT_NE(library_, nullptr) << error;
    EXPECT_TRUE(workspace_.allocate(workspace_bytes).ok());
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~HostCublasLt() override {
    open();
    cudaStreamDestroy(stream_);
  }
  // Makes all later work on the stream wait for open().
  void close() {
    const auto wait = [](void* is_open) { static_cast<std::atomic<bool>*>(is_open)->wait(false); };
    ASSERT_EQ(cudaLaunchHostFunc(stream_, wait, &is_open_), cudaSuccess);
  }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }
  void run(GemmPlan& gemm, const GemmOperands& operands) {
    const Status status = gemm.run(operands, workspace_.as<void>(), stream_);
    ASSERT_TRUE(status.ok()) << status.failure;
  }
  void finish() { ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }
  void expect_gemm(const GemmShape& shape, float factor = 1) {
    const Matrices matrices(shape, factor);
    GemmPlan gemm(*library_);
    const Status status = gemm.prepare(shape, matrices.operands(), workspace_bytes);
    ASSERT_TRUE(status.ok()) << status.failure;
    run(gemm, matrices.operands());
    finish();
    matrices.expect_result();
  }
  // Returns "" where the GEMM is supported.
  std::string refusal(const GemmShape& shape) {
    return GemmPlan(*library_).prepare(shape, Matrices(shape).operands(), workspace_bytes).failure;
  }

  std::unique_ptr<CublasLt> library_;
  cudaStream_t stream_ = nullptr;
  DeviceMemory workspace_;

 private:
  std::atomic<bool> is_open_ = false;
};

GemmShape shape_of(cudaDataType_t operand, cudaDataType_t result, std::int64_t m = 40, std::int64_t n = 56,
                   std::int64_t k = 80) {
  GemmShape shape;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.operand = operand;
  shape.result = result;
  return shape;
}

// Returns a shape of two blocks of rows, three of columns and five along k, with all last ones incomplete.
GemmShape fp8_shape(ScaleMode x, ScaleMode w, cudaDataType_t result = CUDA_R_16BF) {
  GemmShape shape = shape_of(CUDA_R_8F_E4M3, result, 136, 264, 528);
  shape.x_scale = x;
  shape.w_scale = w;
  return shape;
}

TEST_F(HostCublasLt, EveryFormInEveryFormat) {
  for (const bool x_k_contiguous : {true, false})
    for (const bool w_k_contiguous : {true, false})
      for (const auto& [operand, result] : {std::pair{CUDA_R_32F, CUDA_R_32F},
                                            {CUDA_R_16BF, CUDA_R_16BF},
                                            {CUDA_R_16BF, CUDA_R_32F},
                                            {CUDA_R_16F, CUDA_R_16F},
                                            {CUDA_R_16F, CUDA_R_32F}}) {
        SCOPED_TRACE(testing::Message() << operand << " to " << result << ", k contiguous in X: " << x_k_contiguous
                                        << ", in W: " << w_k_contiguous);
        GemmShape shape = shape_of(operand, result);
        shape.x_k_contiguous = x_k_contiguous;
        shape.w_k_contiguous = w_k_contiguous;
        shape.tf32 = operand == CUDA_R_32F && x_k_contiguous;
        expect_gemm(shape);
      }
}

TEST_F(HostCublasLt, Fp8WithItsScales) {
  for (const cudaDataType_t result : {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F}) {
    GemmShape shape = shape_of(CUDA_R_8F_E4M3, result);
    shape.x_scale = shape.w_scale = ScaleMode::tensor;
    expect_gemm(shape);
    shape.fast_accumulation = true;
    expect_gemm(shape, 0.5f);
  }
  expect_gemm(fp8_shape(ScaleMode::row_blocks, ScaleMode::row_blocks, CUDA_R_32F));
  expect_gemm(fp8_shape(ScaleMode::row_blocks, ScaleMode::square_blocks));
  expect_gemm(fp8_shape(ScaleMode::square_blocks, ScaleMode::row_blocks));
}

TEST_F(HostCublasLt, AddsToWhatIsThere) {
  for (const cudaDataType_t operand : {CUDA_R_32F, CUDA_R_16BF}) {
    GemmShape shape = shape_of(operand, CUDA_R_32F);
    shape.x_k_contiguous = shape.w_k_contiguous = false;
    shape.accumulate = true;
    expect_gemm(shape, 0.5f);
  }
  GemmShape fp8 = fp8_shape(ScaleMode::row_blocks, ScaleMode::row_blocks, CUDA_R_32F);
  fp8.accumulate = true;
  expect_gemm(fp8);
}

TEST_F(HostCublasLt, BiasIsAddedToEveryRow) {
  for (const cudaDataType_t type : {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F}) {
    GemmShape shape = shape_of(type, type);
    shape.bias = true;
    expect_gemm(shape, 2);
  }
}

// The batch consists of heads that are adjacent in their rows.
TEST_F(HostCublasLt, BatchOfGemms) {
  GemmShape shape = shape_of(CUDA_R_16BF, CUDA_R_16BF, 24, 16, 32);
  shape.batch = 3;
  shape.x_batch_stride = shape.w_batch_stride = 40;
  shape.x_stride = shape.w_stride = 3 * 40;
  shape.d_batch_stride = 24;
  shape.d_stride = 3 * 24;
  expect_gemm(shape);
}

TEST_F(HostCublasLt, SharesAnAlgorithmAmongRows) {
  const GemmShape usual = shape_of(CUDA_R_16BF, CUDA_R_16BF, 128);
  GemmShape fewer = usual;
  fewer.m = 33;
  const Matrices matrices(fewer);
  GemmPlan gemm(*library_);
  ASSERT_TRUE(gemm.prepare(usual, matrices.operands(), workspace_bytes).ok());
  ASSERT_TRUE(gemm.resize(fewer).ok());
  run(gemm, matrices.operands());
  finish();
  matrices.expect_result();
}

// The call passes the addresses of operands and scales; the values are read when the stream reaches it.
TEST_F(HostCublasLt, ComputesOnTheStream) {
  GemmShape shape = shape_of(CUDA_R_8F_E4M3, CUDA_R_32F);
  shape.x_scale = shape.w_scale = ScaleMode::tensor;
  Matrices first(shape), second(shape);
  GemmPlan gemm(*library_);
  ASSERT_TRUE(gemm.prepare(shape, first.operands(), workspace_bytes).ok());
  close();
  run(gemm, first.operands());
  run(gemm, second.operands());
  first.x().fill(7);
  second.x().fill(8);
  open();
  finish();
  first.expect_result();
  second.expect_result();
}

TEST_F(HostCublasLt, HasOnlyWhatTheLibraryHas) {
  const auto expect_refused = [&](const char* what, GemmShape shape, auto change) {
    EXPECT_EQ(refusal(shape), "") << what;
    change(shape);
    EXPECT_NE(refusal(shape), "") << what;
  };
  const GemmShape bf16 = shape_of(CUDA_R_16BF, CUDA_R_16BF), fp32 = shape_of(CUDA_R_32F, CUDA_R_32F);
  const GemmShape blocks = fp8_shape(ScaleMode::row_blocks, ScaleMode::square_blocks);
  expect_refused("FP16 of BF16", bf16, [](GemmShape& s) { s.result = CUDA_R_16F; });
  expect_refused("BF16 of FP32", fp32, [](GemmShape& s) { s.result = CUDA_R_16BF; });
  expect_refused("TF32 of BF16", bf16, [](GemmShape& s) { s.tf32 = true; });
  expect_refused("rows that overlap", bf16, [](GemmShape& s) { s.d_stride = s.n - 8; });
  expect_refused("FP8 across", blocks, [](GemmShape& s) { s.w_k_contiguous = false; });
  expect_refused("FP8 of odd depth", blocks, [](GemmShape& s) { s.k = 520; });
  expect_refused("FP8 of odd width", blocks, [](GemmShape& s) { s.m = 33; });
  expect_refused("two matrices of squares", blocks, [](GemmShape& s) { s.x_scale = ScaleMode::square_blocks; });
  expect_refused("blocks on one side", blocks, [](GemmShape& s) { s.x_scale = ScaleMode::tensor; });
  expect_refused("blocks summed fast", blocks, [](GemmShape& s) { s.fast_accumulation = true; });
  expect_refused("scales of BF16", bf16, [](GemmShape& s) { s.x_scale = s.w_scale = ScaleMode::tensor; });
}

TEST_F(HostCublasLt, HoldsCallersToTheirWord) {
  const GemmShape shape = shape_of(CUDA_R_16BF, CUDA_R_16BF);
  const Matrices matrices(shape);
  GemmPlan gemm(*library_);
  ASSERT_TRUE(gemm.prepare(shape, matrices.operands(), workspace_bytes).ok());
  EXPECT_FALSE(gemm.run(matrices.operands(), nullptr, stream_).ok());
  GemmOperands shifted = matrices.operands();
  shifted.x = static_cast<const char*>(shifted.x) + 16;  // 16 bytes, not the promised alignment of 256
  EXPECT_FALSE(gemm.run(shifted, workspace_.as<void>(), stream_).ok());
  run(gemm, matrices.operands());
  finish();
  matrices.expect_result();
  EXPECT_TRUE(std::isnan(*workspace_.as<float>()));
}

}  // namespace
}  // namespace plumbline::real::cuda
