#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "real/host/comm/communicator.h"
#include "real/host/rounding.h"
#include "tests/support/real/host_ranks.h"

namespace plumbline::real::host {
namespace {

using model::DataType;
using model::OperatorKind;
using tests::run_ranks;
using tests::vector_tensor;

constexpr std::int32_t ranks = 4;

std::vector<float> random_vector(std::size_t size, DataType type, std::int32_t rank) {
  model::Random random(static_cast<std::uint64_t>(rank) + 1);
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(std::exp(4 * random.normal()) * random.normal());
  round_to(type, values);
  return values;
}

BufferPointer filled(HostDevice& device, DataType type, const std::vector<float>& values) {
  BufferPointer buffer = device.allocate(vector_tensor(static_cast<std::int64_t>(values.size()), type));
  device.write(*buffer, values);
  return buffer;
}

// The operator lives as long as the tests, as streams run it later.
Kernel kernel_of(OperatorKind kind, Buffer& in, Buffer& out) {
  static const std::array<model::Operator, 3> operators = {
      {{.kind = OperatorKind::all_reduce, .name = "collective"},
       {.kind = OperatorKind::reduce_scatter, .name = "collective"},
       {.kind = OperatorKind::all_gather, .name = "collective"}}};
  Kernel kernel;
  kernel.op = &*std::ranges::find(operators, kind, &model::Operator::kind);
  kernel.reads = {&in};
  kernel.writes = {&out};
  kernel.label = 7;
  return kernel;
}

struct Sum {
  DataType type = DataType::fp32;
  std::size_t size = 0;
};
class HostSums : public testing::TestWithParam<Sum> {};

// Every rank has the same bits: those of adding rank after rank in FP32 and rounding once.
TEST_P(HostSums, HaveTheSameBitsEverywhere) {
  const auto [type, size] = GetParam();
  std::vector<float> expected(size, 0.0F);
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const std::vector<float> part = random_vector(size, type, rank);
    for (std::size_t i = 0; i < size; ++i) expected[i] += part[i];
  }
  round_to(type, expected);
  std::array<std::vector<float>, ranks> sums, in_place;
  run_ranks(ranks, {}, [&](HostDevice& device, Communicator& communicator) {
    const std::int32_t rank = communicator.rank();
    const BufferPointer part = filled(device, type, random_vector(size, type, rank));
    const BufferPointer sum = device.allocate(vector_tensor(static_cast<std::int64_t>(size), type));
    communicator.launch(model::Stream::collective, all_ranks(ranks, rank),
                        kernel_of(OperatorKind::all_reduce, *part, *sum));
    communicator.launch(model::Stream::collective, all_ranks(ranks, rank),
                        kernel_of(OperatorKind::all_reduce, *part, *part));
    ASSERT_TRUE(device.synchronize());
    sums[static_cast<std::size_t>(rank)] = device.read(*sum);
    in_place[static_cast<std::size_t>(rank)] = device.read(*part);
  });
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    ASSERT_EQ(sums[rank].size(), size);
    EXPECT_EQ(std::memcmp(sums[rank].data(), expected.data(), size * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(in_place[rank].data(), expected.data(), size * sizeof(float)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, HostSums,
                         testing::Values(Sum{DataType::fp32, 4096}, Sum{DataType::fp32, 1001}, Sum{DataType::fp32, 3},
                                         Sum{DataType::bf16, 1001}, Sum{DataType::fp16, 1001}));

// Shards have unequal sizes and different formats; a rank's own shard is already in its place.
TEST(HostCollectives, GathersAnyPieces) {
  run_ranks(ranks, {}, [](HostDevice& device, Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const BufferPointer piece = filled(device, DataType::fp32, std::vector<float>(rank, 1.0F + 0x1p-20F));
    const BufferPointer all = device.allocate(vector_tensor(1, DataType::bf16));
    communicator.launch(model::Stream::collective, all_ranks(ranks, communicator.rank()),
                        kernel_of(OperatorKind::all_gather, *piece, *all));

    const BufferPointer flat = device.allocate(vector_tensor(8));
    const BufferPointer shard = device.view(*flat, 2 * communicator.rank(), vector_tensor(2));
    device.write(*shard, std::vector<float>(2, static_cast<float>(rank)));
    communicator.launch(model::Stream::collective, all_ranks(ranks, communicator.rank()),
                        kernel_of(OperatorKind::all_gather, *shard, *flat));
    ASSERT_TRUE(device.synchronize());
    EXPECT_EQ(device.read(*all), std::vector<float>(6, 1.0F));
    EXPECT_EQ(device.read(*flat), (std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3}));
  });
}

TEST(HostCollectives, ReportSizesThatDoNotFit) {
  run_ranks(ranks, {}, [](HostDevice& device, Communicator& communicator) {
    const BufferPointer in = device.allocate(vector_tensor(7)), out = device.allocate(vector_tensor(2));
    communicator.launch(model::Stream::collective, all_ranks(ranks, communicator.rank()),
                        kernel_of(OperatorKind::reduce_scatter, *in, *out));
    const model::Result<void> done = device.synchronize();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message, "a sum of 7 elements does not scatter over 4 ranks");
  });
}

// Whatever a rank waits for, its error names the rank that failed.
TEST(HostCommunicator, AbortEndsTheOthersByName) {
  run_ranks(ranks, {}, [](HostDevice& device, Communicator& communicator) {
    if (communicator.rank() == 2) return communicator.abort("out of memory");
    if (communicator.rank() == 0) {
      EXPECT_EQ(communicator.sum({1}).error().message, "rank 2: out of memory");
      return;
    }
    const BufferPointer x = device.allocate(vector_tensor(8));
    communicator.launch(model::Stream::collective, all_ranks(ranks, communicator.rank()),
                        kernel_of(OperatorKind::all_reduce, *x, *x));
    EXPECT_EQ(device.synchronize().error().message, "rank 2: out of memory");
  });
}

// The message is not sent because its sender's kernel failed, and both ranks have streams that wait.
TEST(HostCommunicator, AFailedKernelEndsTheWaitingOfAllStreams) {
  run_ranks(2, {}, [](HostDevice& device, Communicator& communicator) {
    const BufferPointer buffer = filled(device, DataType::fp32, {1, 2, 3});
    const Message receive{false, 1 - communicator.rank(), 0, buffer.get()};
    communicator.send_receive(model::Stream::communication, {&receive, 1}, false, 1);
    if (communicator.rank() == 1) {
      StreamWork failing;
      failing.start = [](StreamClock&) { throw RankFailure("out of luck"); };
      failing.finish = [](StreamClock&) {};
      device.enqueue(model::Stream::compute, std::move(failing));
    }
    const auto done = device.synchronize();
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("out of luck"), std::string::npos) << done.error().message;
  });
}

}  // namespace
}  // namespace plumbline::real::host
