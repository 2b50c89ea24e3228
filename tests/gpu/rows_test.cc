// The row kernels on shapes that small models do not have: rows that need a whole block, incomplete tiles, all formats.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "real/cuda/device/buffer.h"
#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/kernels/attention/attention.h"
#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/permutation/permutation.h"
#include "tests/gpu/gpu.h"

namespace plumbline::tests {
namespace {

using real::cuda::Format;

// Returns a format's relative root mean squared rounding error of normal numbers, with some margin.
double tolerance(Format format) {
  switch (format) {
    case Format::fp32:
      return 2e-6;
    case Format::bf16:
      return 4e-3;
    case Format::e5m6:
      return 1e-2;
    default:
      return 4e-2;
  }
}

class GpuRows : public GpuTest {
 protected:
  struct Tensor {
    std::unique_ptr<real::cuda::CudaBuffer> buffer;
    std::vector<float> values;  // as the device holds them
    real::cuda::TensorView view() const { return buffer->view(); }
  };
  using Launch = std::function<cudaError_t(cudaStream_t)>;

  Tensor make(Format format, std::int64_t rows, std::int64_t columns, std::uint64_t seed,
              std::int64_t matrix_rows = 0) {
    Tensor tensor{std::make_unique<real::cuda::CudaBuffer>(format, rows, columns, matrix_rows), {}};
    EXPECT_TRUE(tensor.buffer->allocate(rows).ok());
    for (std::int64_t i = 0; i < rows * columns; ++i)
      tensor.values.push_back(seed == 0 ? 0 : real::cuda::random_normal(seed, static_cast<std::uint64_t>(i)));
    device().write(*tensor.buffer, tensor.values);
    tensor.values = read(tensor);
    return tensor;
  }
  std::vector<float> read(const Tensor& tensor) { return device().read(*tensor.buffer); }
  void run(const Launch& launch) {
    device().enqueue(model::Stream::compute, 0,
                     [&](cudaStream_t stream) { return real::cuda::outcome(launch(stream), "launching"); });
    const auto idle = device().synchronize();
    ASSERT_TRUE(idle) << idle.error().message;
  }
  void expect_equal(const std::vector<float>& actual, const std::vector<double>& exact, double allowed) {
    double error = 0, size = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      error += (actual[i] - exact[i]) * (actual[i] - exact[i]);
      size += exact[i] * exact[i];
    }
    EXPECT_LE(std::sqrt(error / size), allowed);
    EXPECT_FALSE(std::isnan(error));
  }
};

TEST_F(GpuRows, NormsAndTheirGradientsOfAnyWidth) {
  constexpr std::int64_t rows = 300;
  for (const Format format : {Format::fp32, Format::bf16}) {
    for (const std::int64_t n : {44, 128, 1000, 1536, 5000, 7168, 12288}) {
      SCOPED_TRACE(n);
      const Tensor x = make(format, rows, n, 1), gamma = make(format, n, 1, 2), dy = make(format, rows, n, 3);
      const Tensor y = make(format, rows, n, 0), dx = make(format, rows, n, 0), dgamma = make(Format::fp32, n, 1, 0);
      const real::cuda::NormForm form{1e-6f, false};
      const int sms = device().machine().sms();
      real::cuda::DeviceMemory scratch;
      ASSERT_TRUE(scratch.allocate(norm_grad_scratch(x.view(), form, sms)).ok());
      run([&](cudaStream_t s) { return norm(x.view(), gamma.view(), {}, y.view(), form, s); });
      run([&](cudaStream_t s) {
        return norm_grad(dy.view(), x.view(), gamma.view(), dx.view(), dgamma.view(), {}, form, scratch.as<float>(),
                         sms, s);
      });
      std::vector<double> exact_y, exact_dx;
      std::vector<double> exact_dgamma(static_cast<std::size_t>(n), 0.0);
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto at = [&](const Tensor& t, std::int64_t c) -> double {
          return t.values[static_cast<std::size_t>(row * n + c)];
        };
        const auto g = [&](std::int64_t c) -> double { return gamma.values[static_cast<std::size_t>(c)]; };
        double square = 0, along = 0;
        for (std::int64_t c = 0; c < n; ++c) square += at(x, c) * at(x, c) / static_cast<double>(n);
        const double scale = 1 / std::sqrt(square + 1e-6);
        for (std::int64_t c = 0; c < n; ++c)
          along += at(dy, c) * g(c) * at(x, c) / static_cast<double>(n) * scale * scale;
        for (std::int64_t c = 0; c < n; ++c) {
          exact_y.push_back(at(x, c) * scale * g(c));
          exact_dx.push_back(scale * (at(dy, c) * g(c) - along * at(x, c)));
          exact_dgamma[static_cast<std::size_t>(c)] += at(dy, c) * at(x, c) * scale;
        }
      }
      expect_equal(read(y), exact_y, tolerance(format));
      expect_equal(read(dx), exact_dx, tolerance(format));
      expect_equal(read(dgamma), exact_dgamma, 1e-5);
    }
  }
}

TEST_F(GpuRows, SumsOverRowsAddToWhatIsThereAndAreTheSameEachTime) {
  const std::int64_t rows = 4099, columns = 1100;
  const Tensor x = make(Format::bf16, rows, columns, 7), first = make(Format::fp32, columns, 1, 8);
  const Tensor second = make(Format::fp32, columns, 1, 8);
  const int sms = device().machine().sms();
  real::cuda::DeviceMemory scratch;
  ASSERT_TRUE(scratch.allocate(column_sum_scratch(x.view(), sms)).ok());
  for (const Tensor* to : {&first, &second})
    run([&](cudaStream_t s) { return column_sum(x.view(), to->view(), scratch.as<float>(), sms, s); });
  std::vector<double> exact(first.values.begin(), first.values.end());
  for (std::size_t i = 0; i < x.values.size(); ++i) exact[i % static_cast<std::size_t>(columns)] += x.values[i];
  expect_equal(read(first), exact, 1e-5);
  EXPECT_EQ(read(first), read(second));
}

TEST_F(GpuRows, CastsBetweenFormatsKeepWhatTheFormatCan) {
  for (const Format from : {Format::fp32, Format::bf16, Format::fp8_tile, Format::e5m6}) {
    for (const Format to :
         {Format::fp32, Format::bf16, Format::fp16, Format::fp8_tile, Format::fp8_tensor, Format::e5m6}) {
      for (const std::int64_t columns : {256, 328, 334}) {
        SCOPED_TRACE(columns);
        const Tensor x = make(from, 37, columns, 11), y = make(to, 37, columns, 0);
        run([&](cudaStream_t s) { return cast(x.view(), y.view(), s); });
        expect_equal(read(y), {x.values.begin(), x.values.end()}, tolerance(to));
      }
    }
  }
}

TEST_F(GpuRows, TransposesOfAnyHeightAndFormat) {
  for (const Format from : {Format::bf16, Format::fp8_tile, Format::e5m6}) {
    for (const Format to : {Format::bf16, Format::fp8_tile}) {
      for (const std::int64_t rows : {256, 296, 301}) {
        for (const std::int64_t columns : {128, 200}) {
          const Tensor x = make(from, rows, columns, 13), y = make(to, columns, rows, 0);
          run([&](cudaStream_t s) { return transpose(x.view(), nullptr, y.view(), s); });
          std::vector<double> exact;
          for (std::int64_t c = 0; c < columns; ++c)
            for (std::int64_t r = 0; r < rows; ++r)
              exact.push_back(x.values[static_cast<std::size_t>(r * columns + c)]);
          expect_equal(read(y), exact, tolerance(to));
        }
      }
    }
  }
}

TEST_F(GpuRows, WeightsOfExpertsAreTransposedWithoutRounding) {
  for (const std::int64_t rows : {256, 200, 77}) {
    constexpr std::int64_t experts = 3, columns = 272;
    const Tensor x = make(Format::fp8_block, experts * rows, columns, 17, rows);
    const Tensor y = make(Format::fp8_block, experts * columns, rows, 0, columns);
    run([&](cudaStream_t s) { return transpose(x.view(), nullptr, y.view(), s); });
    const std::vector<float> transposed = read(y);
    for (std::int64_t e = 0; e < experts; ++e)
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c)
          ASSERT_EQ(transposed[static_cast<std::size_t>((e * columns + c) * rows + r)],
                    x.values[static_cast<std::size_t>((e * rows + r) * columns + c)]);
  }
}

TEST_F(GpuRows, WeightsAreCastToBlocksOfEachMatrix) {
  for (const std::int64_t rows : {256, 200}) {
    for (const std::int64_t columns : {272, 150}) {
      const Tensor x = make(Format::bf16, 3 * rows, columns, 23),
                   y = make(Format::fp8_block, 3 * rows, columns, 0, rows);
      run([&](cudaStream_t s) { return cast(x.view(), y.view(), s); });
      expect_equal(read(y), {x.values.begin(), x.values.end()}, tolerance(Format::fp8_block));
    }
  }
}

TEST_F(GpuRows, SoftmaxOfLongRows) {
  constexpr std::int64_t heads = 2;
  for (const std::int64_t keys : {100, 1024, 3000}) {
    const real::cuda::SoftmaxForm form{heads, keys, 70, true};
    const Tensor scores = make(Format::fp32, keys, heads * keys, 19), p = make(Format::fp32, keys, heads * keys, 0);
    run([&](cudaStream_t s) { return softmax(scores.view(), p.view(), form, s); });
    std::vector<double> exact(p.values.size(), 0.0);
    for (std::int64_t row = 0; row < keys * heads; ++row) {
      const std::int64_t query = row / heads, begin = std::max<std::int64_t>(0, query - 69);
      const double slope = std::exp2(-8.0 * static_cast<double>(row % heads + 1) / heads);
      double sum = 0;
      for (std::int64_t key = begin; key <= query; ++key) {
        const auto at = static_cast<std::size_t>(row * keys + key);
        sum += exact[at] = std::exp(scores.values[at] - slope * static_cast<double>(query - key));
      }
      for (std::int64_t key = begin; key <= query; ++key) exact[static_cast<std::size_t>(row * keys + key)] /= sum;
    }
    expect_equal(read(p), exact, 2e-6);
  }
}

}  // namespace
}  // namespace plumbline::tests
