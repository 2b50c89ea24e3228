#include <gtest/gtest.h>

#include <Eigen/Core>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "real/executor/parallel.h"
#include "real/executor/step/buffer_pool.h"
#include "real/executor/step/parameter_part.h"
#include "real/host/cores.h"
#include "real/host/pool.h"
#include "real/host/rounding.h"
#include "tests/support/real/imaginary_device.h"

namespace plumbline::real::host {
namespace {

// Number formats, memory and cores of the host.

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

namespace plumbline::real {
namespace {

using model::Stream;
using model::Tensor;

// Tests which stream may take returned memory, and when.

model::Tensor tensor(std::int64_t rows, model::DataType type = model::DataType::bf16) {
  return {.name = "x", .shape = {{rows, model::Extent::tokens}, {8}}, .type = type};
}

class BufferPoolTest : public testing::Test {
 protected:
  Buffer* give_and_take(std::optional<Stream> only_user, Stream next, const model::Tensor& wanted) {
    BufferPointer first = pool_.take(tensor(4), Stream::compute);
    given_ = first.get();
    pool_.give_back(tensor(4), std::move(first), only_user);
    kept_.push_back(pool_.take(wanted, next));
    return kept_.back().get();
  }

  tests::ImaginaryDevice device_{tests::ImaginaryTimes{}};
  BufferPool pool_{device_};
  Buffer* given_ = nullptr;
  std::vector<BufferPointer> kept_;
};

TEST_F(BufferPoolTest, AStreamFollowsItself) {
  EXPECT_EQ(give_and_take(Stream::compute, Stream::compute, tensor(4)), given_);
}

TEST_F(BufferPoolTest, WithinASlotAnotherStreamDoesNot) {
  EXPECT_NE(give_and_take(Stream::compute, Stream::communication, tensor(4)), given_);
}

TEST_F(BufferPoolTest, WhatSeveralStreamsUsedIsFreeInTheNextSlotOnly) {
  EXPECT_NE(give_and_take(std::nullopt, Stream::compute, tensor(4)), given_);
  pool_.end_slot();
  EXPECT_EQ(pool_.take(tensor(4), Stream::communication).get(), given_);
}

TEST_F(BufferPoolTest, OtherShapesAndFormatsHaveMemoryOfTheirOwn) {
  EXPECT_NE(give_and_take(Stream::compute, Stream::compute, tensor(5)), given_);
  EXPECT_NE(give_and_take(Stream::compute, Stream::compute, tensor(4, model::DataType::fp32)), given_);
}

// A kernel that takes the memory of a message in transfer would start 0.4 ms too early.
TEST_F(BufferPoolTest, AMessageLeavesBeforeItsMemoryIsTaken) {
  model::Operator all_to_all{.kind = model::OperatorKind::dispatch, .name = "dispatch"};
  Kernel kernel;
  kernel.op = &all_to_all;
  device_.launch(Stream::communication, kernel);
  BufferPointer sent = pool_.take(tensor(4), Stream::communication);
  pool_.give_back(tensor(4), std::move(sent), std::nullopt, device_.record(Stream::communication));
  pool_.end_slot();
  const BufferPointer taken = pool_.take(tensor(4), Stream::compute);
  model::Operator add{.kind = model::OperatorKind::add, .name = "add"};
  kernel.op = &add;
  kernel.label = 7;
  device_.launch(Stream::compute, kernel);
  ASSERT_TRUE(device_.synchronize());
  double all_to_all_end = 0, add_start = 0;
  for (const KernelRecord& record : device_.take_records())
    (record.label == 7 ? add_start : all_to_all_end) = record.label == 7 ? record.start : record.end;
  EXPECT_GT(all_to_all_end, 0);
  EXPECT_GE(add_start, all_to_all_end);
}

// Initial values of parameters: the parts of every division are those of one whole, and numbers do not depend on
// threads.

Tensor parameter(const std::string& name, std::vector<std::int64_t> shape, bool expert = false) {
  Tensor tensor{.name = name, .role = model::Role::parameter, .expert = expert};
  for (const std::int64_t size : shape) tensor.shape.push_back({size});
  return tensor;
}

std::vector<float> initial(const Tensor& whole, const Tensor& held, const Division& division) {
  model::Architecture architecture;
  architecture.heads = 8;
  architecture.key_value_heads = 4;
  architecture.head_dim = 4;
  std::vector<float> values(7, -1);  // as an earlier call left them
  initial_part(architecture, whole, held, division, "layer 1 attention/" + whole.name, values);
  const std::vector<float> all = [&] {
    std::vector<float> result;
    initial_part(architecture, whole, whole, {}, "layer 1 attention/" + whole.name, result);
    return result;
  }();
  EXPECT_EQ(values, part_of(architecture, whole, held, division, all)) << whole.name;
  return values;
}

TEST(InitialParameters, PartsAreThoseOfTheWhole) {
  for (const std::int64_t rank : {0, 1}) {
    const Division two{2, rank, 2, 1 - rank, 2, rank};
    EXPECT_EQ(initial(parameter("qkv", {64, 24}), parameter("qkv", {32, 24}), two).size(), 32U * 24);
    EXPECT_EQ(initial(parameter("output", {24, 32}), parameter("output", {24, 16}), two).size(), 24U * 16);
    EXPECT_EQ(initial(parameter("norm", {24}), parameter("norm", {24}), two), std::vector<float>(24, 1));
    EXPECT_EQ(initial(parameter("qkv_bias", {64}), parameter("qkv_bias", {32}), two), std::vector<float>(32, 0));
    const Tensor experts = parameter("experts_gate_up", {4, 16, 24}, true);
    EXPECT_EQ(initial(experts, parameter("experts_gate_up", {2, 8, 24}, true), two).size(), 2U * 8 * 24);
    EXPECT_EQ(initial(experts, parameter("experts_gate_up", {2, 16, 24}, true), {1, 0, 2, rank}).size(), 2U * 16 * 24);
  }
}

// More numbers than one thread gets: a normal distribution of variance 1 / columns without repeated numbers.
TEST(InitialParameters, AreNormalAndAllDifferent) {
  constexpr std::int64_t rows = 1024, columns = 400;
  const Tensor matrix = parameter("down", {rows, columns});
  std::vector<float> values;
  initial_part({}, matrix, matrix, {}, "layer 2 mlp/down", values);
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto count = static_cast<double>(rows * columns);
  // The mean of 4e5 numbers is within 5 / sqrt(4e5) deviations, the variance within 5 * sqrt(2 / 4e5).
  EXPECT_NEAR(sum / count * std::sqrt(columns), 0, 8e-3);
  EXPECT_NEAR(squares / count * columns, 1, 1.2e-2);
  const std::vector<float> first(values.begin(), values.begin() + columns);
  for (std::int64_t row = 1; row < rows; ++row)
    EXPECT_FALSE(std::equal(first.begin(), first.end(), values.begin() + row * columns)) << row;
  std::vector<float> other;
  initial_part({}, matrix, matrix, {}, "layer 3 mlp/down", other);
  EXPECT_NE(other, values);
}

TEST(InitialParameters, AnyNumberOfASequenceCanBeHadAlone) {
  model::Random sequence(17);
  for (std::uint64_t drawn = 0; drawn < 5; ++drawn) EXPECT_EQ(model::Random(17, drawn).next(), sequence.next());
}

TEST(InParallel, EveryElementIsVisitedOnce) {
  for (const std::int64_t count : {0, 1, 7, 1000})
    for (const std::int64_t least : {1, 3, 2000}) {
      std::vector<int> visits(static_cast<std::size_t>(count));
      in_parallel(count, least, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      EXPECT_EQ(visits, std::vector<int>(visits.size(), 1)) << count << " by " << least;
    }
}

}  // namespace
}  // namespace plumbline::real
