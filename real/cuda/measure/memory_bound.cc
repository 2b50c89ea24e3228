// RMSNorm, SwiGLU, quantization and permutation as operations: rows of BF16 in, rows out, by the kernels of a step.
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/kernels/permutation/permutation.h"
#include "real/cuda/measure/comparison.h"
#include "real/cuda/measure/detail/expected.h"
#include "real/cuda/measure/operation.h"
#include "real/cuda/measure/transfer.h"

namespace plumbline::real::cuda {
namespace {

constexpr int sampled_rows = 16;
constexpr std::uint64_t seed_input_rows = 21, seed_gamma = 22, seed_sampled_rows = 23;
constexpr float epsilon = 1e-6f;

// The base of the four: one input and one output of rows, checked row by row.
class RowKernel : public Operation {
 public:
  explicit RowKernel(const KernelCase& what) : what_(what) {}

  Status prepare(Toolbox& tools) override {
    const std::int64_t elements = what_.rows * input_columns();
    PLUMBLINE_TRY(x_.allocate(elements * 2));
    PLUMBLINE_TRY(y_.allocate(output_rows() * what_.columns * output_bytes()));
    PLUMBLINE_TRY(
        outcome(fill_bf16(x_.as<Bf16>(), elements, seed_input_rows, 1.0f, tools.stream), "filling the input"));
    PLUMBLINE_TRY(prepare_more(tools));
    return outcome(cudaStreamSynchronize(tools.stream), "filling the input");
  }

  Status check(Toolbox& tools, CheckOutcome& result) override {
    PLUMBLINE_TRY(run_poisoned({&y_}, tools.stream));
    Comparison comparison;
    for (const std::int64_t row : sampled_indices(output_rows(), sampled_rows, seed_sampled_rows))
      PLUMBLINE_TRY(check_row(row, comparison));
    result = comparison.outcome(output_bytes() == 1 ? fp8_tolerance : bf16_tolerance);
    return {};
  }

 protected:
  virtual std::int64_t input_columns() const { return what_.columns; }
  virtual std::int64_t output_rows() const { return what_.rows; }
  virtual std::int64_t output_bytes() const { return 2; }  // per element
  virtual Status prepare_more(Toolbox&) { return {}; }
  virtual Status check_row(std::int64_t row, Comparison& comparison) const = 0;

  Status input_row(std::int64_t row, std::vector<double>& values) const {
    return bf16_row(x_, row, input_columns(), values);
  }
  static Status bf16_row(const DeviceMemory& of, std::int64_t row, std::int64_t columns, std::vector<double>& values) {
    return fetch_bf16(of.as<void>(), row * columns, columns, values);
  }

  static TensorView bf16(const DeviceMemory& memory, std::int64_t rows, std::int64_t columns) {
    return {memory.as<void>(), nullptr, Format::bf16, rows, columns, 0};
  }
  TensorView input() const { return bf16(x_, what_.rows, input_columns()); }
  TensorView output() const { return bf16(y_, output_rows(), what_.columns); }

  KernelCase what_;
  DeviceMemory x_, y_;
};

class RmsNorm : public RowKernel {
 public:
  using RowKernel::RowKernel;
  Status run(cudaStream_t stream) override {
    return outcome(norm(input(), bf16(gamma_, what_.columns, 1), {}, output(), {epsilon, false}, stream), "rmsnorm");
  }

 protected:
  Status prepare_more(Toolbox& tools) override {
    PLUMBLINE_TRY(gamma_.allocate(what_.columns * 2));
    return outcome(fill_bf16(gamma_.as<Bf16>(), what_.columns, seed_gamma, 1.0f, tools.stream), "filling the weights");
  }
  Status check_row(std::int64_t row, Comparison& comparison) const override {
    std::vector<double> x, gamma, y;
    PLUMBLINE_TRY(input_row(row, x));
    PLUMBLINE_TRY(bf16_row(gamma_, 0, what_.columns, gamma));
    PLUMBLINE_TRY(bf16_row(y_, row, what_.columns, y));
    const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(what_.columns) + epsilon);
    for (std::size_t i = 0; i < x.size(); ++i) comparison.add(y[i], x[i] * inverse * gamma[i]);
    return {};
  }

 private:
  DeviceMemory gamma_;
};

class SwiGlu : public RowKernel {
 public:
  using RowKernel::RowKernel;
  Status run(cudaStream_t stream) override { return outcome(swiglu(input(), {}, output(), stream), "swiglu"); }

 protected:
  std::int64_t input_columns() const override { return 2 * what_.columns; }
  Status check_row(std::int64_t row, Comparison& comparison) const override {
    std::vector<double> x, y;
    PLUMBLINE_TRY(input_row(row, x));
    PLUMBLINE_TRY(bf16_row(y_, row, what_.columns, y));
    for (std::size_t i = 0; i < y.size(); ++i) comparison.add(y[i], x[i] / (1 + std::exp(-x[i])) * x[i + y.size()]);
    return {};
  }
};

class Quantize : public RowKernel {
 public:
  using RowKernel::RowKernel;
  Status run(cudaStream_t stream) override {
    const TensorView y = {y_.as<void>(), scales_.as<float>(), Format::fp8_tile, what_.rows, what_.columns, 0};
    return outcome(cast(input(), y, stream), "quantise");
  }

 protected:
  std::int64_t output_bytes() const override { return 1; }
  Status prepare_more(Toolbox& tools) override {
    PLUMBLINE_TRY(scales_.allocate(what_.rows * tiles() * 4));
    return scales_.set(0xff, tools.stream, "poisoning the scales");
  }
  // Checks that stored values times scales give the input, and equal the result of the host's arithmetic.
  Status check_row(std::int64_t row, Comparison& comparison) const override {
    std::vector<double> x;
    std::vector<Fp8> stored;
    std::vector<float> scales;
    PLUMBLINE_TRY(input_row(row, x));
    PLUMBLINE_TRY(fetch(y_.as<Fp8>() + row * what_.columns, what_.columns, stored));
    PLUMBLINE_TRY(fetch(scales_.as<float>() + row * tiles(), tiles(), scales));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float scale = scales[i / static_cast<std::size_t>(scale_tile)];
      const auto value = static_cast<float>(x[i]);
      const bool same = fp8_to_float(stored[i]) == fp8_to_float(float_to_fp8(value * (1.0f / scale)));
      comparison.add(same ? static_cast<double>(fp8_to_float(stored[i])) * scale : std::nan(""), x[i]);
    }
    return {};
  }

 private:
  std::int64_t tiles() const { return tiles_of(what_.columns); }

  DeviceMemory scales_;
};

class Permute : public RowKernel {
 public:
  using RowKernel::RowKernel;
  Status run(cudaStream_t stream) override {
    return outcome(gather_rows(input(), source_.as<std::int32_t>(), 0, output(), stream), "permute");
  }

 protected:
  std::int64_t output_rows() const override { return what_.rows * what_.top_k; }
  Status prepare_more(Toolbox& tools) override {
    std::vector<std::int32_t> source(static_cast<std::size_t>(output_rows()));
    for (std::size_t row = 0; row < source.size(); ++row)
      source[row] = static_cast<std::int32_t>(source_of(static_cast<std::int64_t>(row)));
    PLUMBLINE_TRY(source_.allocate(output_rows() * 4));
    // The copy is on the stream that reads it: on another one, a copy of pageable memory may return before it has
    // ended.
    PLUMBLINE_TRY(outcome(
        cudaMemcpyAsync(source_.as<void>(), source.data(), source.size() * 4, cudaMemcpyHostToDevice, tools.stream),
        "copying the row map"));
    return outcome(cudaStreamSynchronize(tools.stream), "copying the row map");
  }
  Status check_row(std::int64_t row, Comparison& comparison) const override {
    std::vector<double> x, y;
    PLUMBLINE_TRY(input_row(source_of(row), x));
    PLUMBLINE_TRY(bf16_row(y_, row, what_.columns, y));
    for (std::size_t i = 0; i < y.size(); ++i) comparison.add(y[i], x[i]);
    return {};
  }

 private:
  std::int64_t source_of(std::int64_t row) const {
    constexpr std::int64_t spread = 32;  // 256 experts at top 8
    return permuted_source(row, what_.rows, what_.rows % spread == 0 ? spread : 1);
  }

  DeviceMemory source_;
};

}  // namespace

std::unique_ptr<Operation> make_rmsnorm(const KernelCase& what) { return std::make_unique<RmsNorm>(what); }
std::unique_ptr<Operation> make_swiglu(const KernelCase& what) { return std::make_unique<SwiGlu>(what); }
std::unique_ptr<Operation> make_quantize(const KernelCase& what) { return std::make_unique<Quantize>(what); }
std::unique_ptr<Operation> make_permute(const KernelCase& what) { return std::make_unique<Permute>(what); }

}  // namespace plumbline::real::cuda
