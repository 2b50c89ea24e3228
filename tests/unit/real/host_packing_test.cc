#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "real/host/comm/packing.h"
#include "real/host/comm/transport.h"
#include "real/host/pool.h"

namespace plumbline::real::host {
namespace {

using model::DataType;

// The numbers of each format are exact, with an odd count of each, so that the next ones start at any even address.
TEST(HostPacking, GivesBackTheBits) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> halves{1.5F, -0.0F, 0x1p-24F, 65504.0F, -infinity}, brain{0x1.8p127F, -1.0F, infinity},
      floats{1.0F + 0x1p-23F, -0x1p-149F, 16777216.0F};
  Packer packer(0);
  packer.add(DataType::fp16, halves);
  packer.add(DataType::fp32, floats);
  packer.add(DataType::bf16, brain);
  packer.add(DataType::int32, floats);
  const std::vector<std::byte> bytes = packer.take();
  EXPECT_EQ(bytes.size(), 5U * 2 + 3 * 4 + 3 * 2 + 3 * 4);
  Unpacker unpacker(bytes);
  const auto expect_next = [&](DataType type, const std::vector<float>& expected) {
    std::vector<float> got(expected.size());
    unpacker.copy(type, got);
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0) << to_string(type);
  };
  expect_next(DataType::fp16, halves);
  expect_next(DataType::fp32, floats);
  expect_next(DataType::bf16, brain);
  expect_next(DataType::int32, floats);
  unpacker.finish();
}

TEST(HostPacking, KeepsNotANumber) {
  for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32}) {
    Packer packer(0);
    packer.add(type, std::vector<float>{std::nanf("")});
    std::vector<float> got{0};
    Unpacker(packer.take()).copy(type, got);
    EXPECT_TRUE(std::isnan(got[0])) << to_string(type);
  }
}

TEST(HostPacking, ReportsAPacketThatDoesNotFit) {
  Packer packer(0);
  packer.add(DataType::fp32, std::vector<float>(3));
  const std::vector<std::byte> bytes = packer.take();
  std::vector<float> two(2), four(4);
  const auto failure = [](auto body) -> std::string {
    try {
      body();
    } catch (const RankFailure& wrong) {
      return wrong.what();
    }
    return "";
  };
  EXPECT_EQ(failure([&] { Unpacker(bytes).copy(DataType::fp32, four); }),
            "a packet ends 4 bytes before what it should hold");
  EXPECT_EQ(failure([&] {
              Unpacker unpacker(bytes);
              unpacker.copy(DataType::fp32, two);
              unpacker.finish();
            }),
            "a packet holds 4 bytes too many");
}

}  // namespace
}  // namespace plumbline::real::host
