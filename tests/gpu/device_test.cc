// Tests the GPU as a device: memory, order of streams, clock, failures.
#include <cuda_runtime_api.h>

#include <vector>

#include "real/cuda/device/detail/host_copy.h"
#include "real/cuda/device/detail/parameters.h"
#include "real/cuda/kernels/measuring/measuring.h"
#include "tests/gpu/gpu.h"

namespace plumbline::tests {
namespace {

using model::DataType;
using model::Stream;
using model::Tensor;
using real::cuda::CudaBuffer;

Tensor matrix(DataType type, std::int64_t rows, std::int64_t columns) {
  return {.name = "x", .shape = {{rows}, {columns}}, .type = type};
}

Tensor vector(DataType type, std::int64_t elements) { return {.name = "x", .shape = {{elements}}, .type = type}; }

// Returns powers of two, which are exact in every format.
std::vector<float> exact_numbers(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back((i % 2 == 0 ? 1.0F : -1.0F) * static_cast<float>(1 << i % 3));
  return values;
}

class GpuDevice : public GpuTest {
 protected:
  // Kernels are loaded at their first launch, which must not be timed.
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    spin(Stream::compute, 1000, 0);
    ASSERT_TRUE(device().synchronize());
    device().take_records();
  }
  void spin(Stream stream, std::int64_t nanoseconds, std::uint32_t label) {
    device().enqueue(stream, label, [=](cudaStream_t on) {
      return real::cuda::outcome(real::cuda::spin(nanoseconds, on), "spinning");
    });
  }
  void copy(Stream stream, const real::Buffer& from, real::Buffer& to, std::uint32_t label = 0) {
    const auto a = static_cast<const CudaBuffer&>(from).view(), b = static_cast<CudaBuffer&>(to).view();
    device().enqueue(stream, label, [=](cudaStream_t on) {
      const auto bytes = static_cast<std::size_t>(data_bytes(a.format, a.elements()));
      return real::cuda::outcome(cudaMemcpyAsync(b.data, a.data, bytes, cudaMemcpyDeviceToDevice, on), "copying");
    });
  }
};

TEST_F(GpuDevice, HoldsWhatIsWrittenInEveryFormat) {
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16, DataType::e5m6, DataType::fp8_tile,
                              DataType::fp8_block, DataType::fp8, DataType::int32, DataType::int64}) {
    const auto buffer = device().allocate(matrix(type, 48, 272));
    EXPECT_EQ(device().read(*buffer), std::vector<float>(48 * 272, 0)) << to_string(type);
    // Scales are a largest value over 448 or 65024: stored values differ by roundings of that quotient alone.
    const std::vector<float> values = exact_numbers(48 * 272);
    device().write(*buffer, values);
    const std::vector<float> back = device().read(*buffer);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(back[i], values[i], 1e-5F) << to_string(type);
    EXPECT_TRUE(device().synchronize());
  }
}

TEST_F(GpuDevice, ViewsAreParts) {
  const auto flat = device().allocate(vector(DataType::bf16, 64));
  device().write(*flat, exact_numbers(64));
  const auto part = device().view(*flat, 16, matrix(DataType::bf16, 2, 8));
  const std::vector<float> all = exact_numbers(64);
  EXPECT_EQ(device().read(*part), std::vector<float>(all.begin() + 16, all.begin() + 32));
  device().write(*part, std::vector<float>(16, 3));
  EXPECT_EQ(device().read(*flat)[15], all[15]);
  EXPECT_EQ(device().read(*flat)[16], 3);
  EXPECT_EQ(device().read(*flat)[32], all[32]);
}

// Shards begin anywhere, also within a vector of 16 bytes.
TEST_F(GpuDevice, PartsAreCopiedBetweenFormats) {
  const auto flat = device().allocate(vector(DataType::bf16, 1000));
  const std::vector<float> all = exact_numbers(1000);
  device().write(*flat, all);
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16}) {
    const auto part = device().allocate(vector(type, 333));
    device().copy(*flat, 333, 333, *part);
    EXPECT_EQ(device().read(*part), std::vector<float>(all.begin() + 333, all.begin() + 666)) << to_string(type);
  }
  EXPECT_TRUE(device().synchronize());
}

TEST_F(GpuDevice, AViewThatKernelsCannotReadIsRefused) {
  const auto flat = device().allocate(vector(DataType::bf16, 64));
  device().view(*flat, 3, matrix(DataType::bf16, 2, 8));
  const auto idle = device().synchronize();
  ASSERT_FALSE(idle);
  EXPECT_NE(idle.error().message.find("16 bytes"), std::string::npos) << idle.error().message;
}

// Returns what a GEMM would read of a parameter: the values of its FP8 bytes.
std::vector<float> values_on_device(const CudaBuffer& buffer) {
  std::vector<float> values(static_cast<std::size_t>(buffer.elements()));
  const real::cuda::Status status = real::cuda::download(buffer.view(), values, nullptr);
  EXPECT_TRUE(status.ok()) << status.failure;
  return values;
}

// An optimizer writes the vector; kernels that read the matrix in FP8 find what the host would have written.
TEST_F(GpuDevice, ParametersInFp8FollowTheirVector) {
  const Tensor experts{.name = "x", .shape = {{2}, {136}, {160}}, .type = DataType::fp8_block};
  const std::int64_t elements = std::int64_t{2} * 136 * 160;
  const auto flat = device().allocate(vector(DataType::fp8_block, elements));
  const auto weight = device().view(*flat, 0, experts);
  device().write(*weight, std::vector<float>(static_cast<std::size_t>(elements), -2));
  EXPECT_EQ(device().read(*flat), std::vector<float>(static_cast<std::size_t>(elements), -2));

  std::vector<float> values;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(elements); ++i)
    values.push_back(real::cuda::random_normal(1, i));
  device().write(*flat, values);
  device().enqueue(Stream::compute, 1,
                   [&](cudaStream_t stream) { return real::cuda::refresh(static_cast<CudaBuffer&>(*weight), stream); });
  const auto idle = device().synchronize();
  ASSERT_TRUE(idle) << idle.error().message;
  const auto by_kernel = values_on_device(static_cast<CudaBuffer&>(*weight));
  const auto expected = device().allocate(experts);
  device().write(*expected, device().read(*flat));
  EXPECT_EQ(by_kernel, values_on_device(static_cast<CudaBuffer&>(*expected)));
}

TEST_F(GpuDevice, BuffersThatGrowKeepWorking) {
  const auto buffer = device().allocate(matrix(DataType::fp8_tile, 16, 256));
  auto& routed = static_cast<CudaBuffer&>(*buffer);
  for (const std::int64_t rows : {200, 3, 0, 17}) {
    ASSERT_TRUE(routed.resize(rows).ok());
    device().write(routed, std::vector<float>(static_cast<std::size_t>(rows * 256), 448));
    EXPECT_EQ(device().read(routed), std::vector<float>(static_cast<std::size_t>(rows * 256), 448));
  }
}

TEST_F(GpuDevice, EventsOrderStreams) {
  const auto first = device().allocate(vector(DataType::fp32, 1024));
  const auto second = device().allocate(vector(DataType::fp32, 1024));
  const auto third = device().allocate(vector(DataType::fp32, 1024));
  device().write(*first, std::vector<float>(1024, 5));
  spin(Stream::compute, 20'000'000, 1);
  copy(Stream::compute, *first, *second, 2);
  device().wait(Stream::communication, device().record(Stream::compute));
  copy(Stream::communication, *second, *third, 3);
  ASSERT_TRUE(device().synchronize());
  EXPECT_EQ(device().read(*third), std::vector<float>(1024, 5));
  const std::vector<real::KernelRecord> records = device().take_records();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[2].label, 3U);
  EXPECT_EQ(records[2].stream, Stream::communication);
  EXPECT_GE(records[2].start, records[1].end - 1e-6);
}

TEST_F(GpuDevice, StreamsRunAtTheSameTime) {
  const double before = device().now();
  spin(Stream::compute, 30'000'000, 1);
  spin(Stream::communication, 30'000'000, 2);
  spin(Stream::collective, 30'000'000, 3);
  ASSERT_TRUE(device().synchronize());
  EXPECT_LT(device().now() - before, 0.06);
}

TEST_F(GpuDevice, RecordsHaveTheTimesOfKernels) {
  for (int round = 0; round < 2; ++round) {  // the clock continues over synchronise()
    const double before = device().now();
    for (std::uint32_t label = 1; label <= 4; ++label) spin(Stream::compute, 2'000'000 * label, label);
    ASSERT_TRUE(device().synchronize());
    const std::vector<real::KernelRecord> records = device().take_records();
    ASSERT_EQ(records.size(), 4U);
    EXPECT_GE(records[0].start, before);
    EXPECT_LE(records[3].end, device().now());
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(records[i].end - records[i].start, 2e-3 * static_cast<double>(i + 1), 5e-4);
      if (i == 0) continue;
      EXPECT_EQ(records[i].start, records[i - 1].end);  // one event is between them
    }
  }
  EXPECT_TRUE(device().take_records().empty());
}

TEST_F(GpuDevice, TheHostsDelayIsNotTheKernels) {
  spin(Stream::compute, 1'000'000, 1);
  cudaDeviceSynchronize();
  spin(Stream::communication, 50'000'000, 2);  // the other stream is idle meanwhile
  cudaDeviceSynchronize();
  spin(Stream::compute, 1'000'000, 3);
  ASSERT_TRUE(device().synchronize());
  const std::vector<real::KernelRecord> records = device().take_records();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[1].label, 3U);  // streams one after the other
  EXPECT_LT(records[1].end - records[1].start, 5e-3);
}

TEST_F(GpuDevice, TheFirstFailureStaysAndNothingRunsAfterIt) {
  const auto buffer = device().allocate(vector(DataType::fp32, 8));
  const model::Operator op{.kind = model::OperatorKind::dispatch, .name = "send_tokens"};
  device().launch(Stream::compute, {.op = &op});
  device().fail({"something later"});
  device().enqueue(Stream::compute, 1, [](cudaStream_t) -> real::cuda::Status {
    ADD_FAILURE() << "launched after a failure";
    return {};
  });
  const auto idle = device().synchronize();
  ASSERT_FALSE(idle);
  EXPECT_EQ(idle.error().kind, model::ErrorKind::infeasible);
  EXPECT_EQ(idle.error().message, "send_tokens (dispatch): a GPU does not compute it");
  EXPECT_FALSE(device().synchronize());
}

TEST_F(GpuDevice, TooLittleMemoryIsNamed) {
  Tensor huge = vector(DataType::fp32, std::int64_t{1} << 42);
  huge.name = "everything";
  const auto buffer = device().allocate(huge);
  EXPECT_NE(buffer, nullptr);
  const auto idle = device().synchronize();
  ASSERT_FALSE(idle);
  EXPECT_EQ(idle.error().kind, model::ErrorKind::infeasible);
  EXPECT_NE(idle.error().message.find("everything: too little memory"), std::string::npos) << idle.error().message;
}

}  // namespace
}  // namespace plumbline::tests
