// Number formats, memory and cores of the host.
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "real/host/cores.h"
#include "real/host/pool.h"
#include "real/host/rounding.h"

namespace plumbline::real::host {
namespace {

// Eigen's casts are the reference of plumbline's.
std::uint16_t to_bf16(float value) { return Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(value)); }
float from_bf16(std::uint16_t bits) { return static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(bits)); }
std::uint16_t to_fp16(float value) { return Eigen::numext::bit_cast<std::uint16_t>(Eigen::half(value)); }
float from_fp16(std::uint16_t bits) { return static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits)); }

using model::DataType;

constexpr std::uint32_t patterns = 1 << 16;

template <float (*from)(std::uint16_t), std::uint16_t (*to)(float)>
void expect_round_trip(DataType type) {
  for (std::uint32_t i = 0; i < patterns; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    float value = from(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(from(to(value))));
      round_to(type, {&value, 1});
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    EXPECT_EQ(to(value), bits);
    round_to(type, {&value, 1});
    EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(from(bits)));
  }
}

TEST(Rounding, LeavesEveryNumberOfTheFormatAsItIs) {
  expect_round_trip<from_bf16, to_bf16>(DataType::bf16);
  expect_round_trip<from_fp16, to_fp16>(DataType::fp16);
}

// Between two adjacent numbers of the format: below the middle down, above it up, in the middle to the even one.
template <float (*from)(std::uint16_t), std::uint16_t (*to)(float)>
void expect_nearest(std::uint16_t last) {
  for (std::uint16_t bits = 0; bits < last; ++bits) {
    const float low = from(bits), high = from(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    const auto even = static_cast<std::uint16_t>(bits + bits % 2);
    ASSERT_EQ(to(middle), even) << middle;
    ASSERT_EQ(to(std::nextafter(middle, low)), bits) << middle;
    ASSERT_EQ(to(std::nextafter(middle, high)), bits + 1) << middle;
    ASSERT_EQ(to(-middle), even | 0x8000) << middle;
    float rounded = middle;
    round_to(to == to_fp16 ? DataType::fp16 : DataType::bf16, {&rounded, 1});
    ASSERT_EQ(rounded, from(even));
  }
}

TEST(Rounding, TakesTheNearestAndOfTwoTheEven) {
  expect_nearest<from_fp16, to_fp16>(0x7bff);  // the largest finite number, 65504
  expect_nearest<from_bf16, to_bf16>(0x7f7f);
}

TEST(Rounding, OverflowGivesInfinity) {
  EXPECT_EQ(to_fp16(65519.99F), 0x7bff);
  EXPECT_EQ(to_fp16(65520), 0x7c00);  // half-way to 65536, the even one
  EXPECT_EQ(to_fp16(-1e30F), 0xfc00);
  EXPECT_EQ(to_fp16(std::ldexp(1.0F, -26)), 0);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  float wide = 1.0F + std::ldexp(1.0F, -20);
  round_to(DataType::fp32, {&wide, 1});
  EXPECT_EQ(wide, 1.0F + std::ldexp(1.0F, -20));
}

TEST(Pool, HandsTheSameMemoryOutAgain) {
  Pool pool;
  const Pool::Piece first = pool.take(5000);
  EXPECT_GE(first.capacity, 5000U);
  const Pool::Piece second = pool.take(5000);
  EXPECT_NE(first.data, second.data);
  pool.give_back(first);
  EXPECT_EQ(pool.take(5001).data, first.data) << "a little more is the same size to the pool";
}

TEST(Pool, SpreadsBeginningsOverAPage) {
  Pool pool;
  std::set<std::uintptr_t> lines;
  constexpr std::size_t page = 1024;  // floats
  for (int i = 0; i < 64; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(pool.take(4 * page).data);
    EXPECT_EQ(address % 64, 0U);
    lines.insert(address / 64 % 64);
  }
  EXPECT_EQ(lines.size(), 64U);
}

TEST(Pool, PiecesDoNotOverlap) {
  Pool pool;
  std::vector<Pool::Piece> pieces;
  for (const std::size_t floats : {std::size_t{1}, std::size_t{100}, std::size_t{70000}, std::size_t{20} << 20,
                                   std::size_t{3}, std::size_t{9} << 20, std::size_t{9} << 20})
    pieces.push_back(pool.take(floats));
  for (const Pool::Piece& piece : pieces)
    piece.data[0] = piece.data[piece.capacity - 1] = static_cast<float>(piece.capacity);
  for (const Pool::Piece& a : pieces)
    for (const Pool::Piece& b : pieces)
      EXPECT_TRUE(a.data == b.data || a.data + a.capacity <= b.data || b.data + b.capacity <= a.data);
}

TEST(Buffer, GrowsWithWhatRoutingDecides) {
  Pool pool;
  HostBuffer buffer(pool, DataType::fp32, 4, 10);
  buffer.resize(3000);
  buffer.matrix().setConstant(2);
  EXPECT_EQ(buffer.rows(), 3000);
  EXPECT_EQ(buffer.array().sum(), 60000);
  float memory[6] = {};
  HostBuffer view(memory, DataType::fp32, 3, 2);
  view.resize(2);
  EXPECT_EQ(view.size(), 4);
}

TEST(Cores, DivideWorkOnce) {
  for (const int count : {1, 2, 3}) {
    Cores cores(count);
    EXPECT_EQ(cores.count(), count);
    for (const Index n : {0, 1, 7, 100}) {
      std::array<std::atomic<int>, 100> visits{};
      std::atomic<int> calls = 0;
      cores.split(n, 8, [&](Index begin, Index end) {
        ++calls;
        EXPECT_EQ(begin % 8, 0);
        for (Index i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      EXPECT_LE(calls, count);
      for (std::size_t i = 0; i < visits.size(); ++i) EXPECT_EQ(visits[i], i < static_cast<std::size_t>(n) ? 1 : 0);
    }
  }
}

TEST(Pool, CountsTensorsInTheirFormats) {
  Pool pool;
  {
    HostBuffer half(pool, DataType::bf16, 10, 3);
    EXPECT_EQ(pool.most_bytes(), 60);
    HostBuffer whole(pool, DataType::fp32, 5, 1);
    EXPECT_EQ(pool.most_bytes(), 60 + 20);
    half.resize(5);  // routing left half of the rows
    HostBuffer other(pool, DataType::fp32, 2, 1);
    EXPECT_EQ(pool.most_bytes(), 80);
    half.resize(20);
    EXPECT_EQ(pool.most_bytes(), 120 + 20 + 8);
  }
  const HostBuffer later(pool, DataType::fp32, 1, 1);
  EXPECT_EQ(pool.most_bytes(), 148);
}

}  // namespace
}  // namespace plumbline::real::host
