#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "model/result/comparison.h"

namespace plumbline::model {
namespace {

constexpr std::int64_t ms = 1'000'000'000;

class Drawing {
 public:
  Drawing& add(std::uint8_t depth, const std::string& name, std::int64_t start_ms, std::int64_t length_ms,
               Stream stream = Stream::compute, std::int32_t rank = 0) {
    writer_.add({.rank = rank, .stream = stream}, name, depth, start_ms * ms, (start_ms + length_ms) * ms);
    return *this;
  }
  Timeline done() { return writer_.finish(); }

 private:
  TimelineWriter writer_;
};

std::optional<OverlappedSlots> overlapped(Drawing& predicted, Drawing& measured) {
  return compare(predicted.done(), measured.done()).overlapped;
}

TEST(Intervals, CountWhatOverlapsOnce) {
  // [0, 3) and [2, 5) cover 5 s, [7, 8) one more; without [4, 7) and [7, 8) remain [0, 4).
  constexpr std::int64_t s = 1000 * ms;
  const std::vector<Interval> some = {{2 * s, 5 * s}, {0, 3 * s}, {7 * s, 8 * s}};
  EXPECT_DOUBLE_EQ(covered(some), 6);
  EXPECT_DOUBLE_EQ(covered_without(some, {{4 * s, 8 * s}}), 4);
  EXPECT_EQ(merged({{1, 1}, {3, 2}}).size(), 0u);
}

TEST(OverlappedSlots, ErrorsOfPairsAndMeansOfTheirParts) {
  Drawing predicted, measured;
  predicted.add(0, "FB", 0, 10).add(0, "F", 10, 4).add(0, "FB", 14, 12);
  predicted.add(1, "attn(F)", 0, 4).add(1, "attn(F)", 14, 6).add(1, "dispatch(F)", 2, 5, Stream::communication);
  predicted.add(1, "notify", 2, 1, Stream::communication).add(1, "attn(F)", 11, 2);
  measured.add(0, "FB", 100, 8).add(0, "F", 108, 4).add(0, "FB", 112, 10);
  measured.add(1, "attn(F)", 101, 4).add(1, "attn(F)", 113, 4).add(1, "dispatch(F)", 103, 10, Stream::communication);
  const auto slots = overlapped(predicted, measured);
  ASSERT_TRUE(slots);
  EXPECT_EQ(slots->rank, 0);
  EXPECT_DOUBLE_EQ(*slots->each.predicted_s, 11e-3);
  EXPECT_DOUBLE_EQ(*slots->each.measured_s, 9e-3);
  // 12 over 10 and 10 over 8.
  ASSERT_EQ(slots->errors.size(), 2U);
  EXPECT_NEAR(slots->errors[0], 0.2, 1e-12);
  EXPECT_NEAR(slots->errors[1], 0.25, 1e-12);
  EXPECT_NEAR(slots->median_error(), 0.225, 1e-12);
  // Times outside pairs do not count, and a phase that only one of the two has gives no row.
  ASSERT_EQ(slots->phases.size(), 2U);
  EXPECT_EQ(slots->phases[0].name, "dispatch(F)");
  EXPECT_DOUBLE_EQ(*slots->phases[0].predicted_s, 2.5e-3);
  EXPECT_DOUBLE_EQ(*slots->phases[0].measured_s, 5e-3);
  EXPECT_EQ(slots->phases[1].name, "attn(F)");
  EXPECT_DOUBLE_EQ(*slots->phases[1].predicted_s, 5e-3);
  EXPECT_DOUBLE_EQ(*slots->phases[1].measured_s, 4e-3);
  EXPECT_TRUE(slots->kernels.empty());
}

// The prediction shows kernels of one pair; measured pairs with the same predicted time are compared with it.
TEST(OverlappedSlots, OperatorsAreThoseOfPairsLikeTheOneShown) {
  Drawing predicted, measured;
  predicted.add(0, "FB", 0, 10).add(0, "FB", 10, 10).add(0, "FB", 20, 12);
  predicted.add(2, "q_a", 11, 2).add(2, "q_b", 13, 4).add(2, "q_a", 17, 2);
  measured.add(0, "FB", 0, 10).add(0, "FB", 10, 10).add(0, "FB", 20, 10);
  measured.add(2, "q_a", 1, 3).add(2, "q_a", 11, 5).add(2, "q_b", 13, 2).add(2, "q_a", 21, 9);
  const auto slots = overlapped(predicted, measured);
  ASSERT_TRUE(slots);
  ASSERT_EQ(slots->kernels.size(), 2U);
  EXPECT_EQ(slots->kernels[0].name, "q_a");
  EXPECT_DOUBLE_EQ(*slots->kernels[0].predicted_s, 4e-3);
  EXPECT_DOUBLE_EQ(*slots->kernels[0].measured_s, 4e-3);  // 3 and 5
  EXPECT_DOUBLE_EQ(*slots->kernels[1].measured_s, 1e-3);  // 0 and 2
  const auto classes = grouped(slots->kernels, {{"q_a", "GEMM"}, {"q_b", "GEMM"}});
  ASSERT_EQ(classes.size(), 1U);
  EXPECT_EQ(classes[0].name, "GEMM");
  EXPECT_DOUBLE_EQ(*classes[0].predicted_s, 8e-3);
  EXPECT_DOUBLE_EQ(*classes[0].measured_s, 5e-3);
  EXPECT_TRUE(grouped(slots->kernels, {}).empty());
}

TEST(OverlappedSlots, TheLowestMeasuredRankCounts) {
  Drawing predicted, measured;
  predicted.add(0, "FB", 0, 10).add(0, "FB", 0, 20, Stream::compute, 1);
  measured.add(0, "FB", 5, 16, Stream::compute, 1);
  const auto slots = overlapped(predicted, measured);
  ASSERT_TRUE(slots);
  EXPECT_EQ(slots->rank, 1);
  EXPECT_NEAR(slots->errors[0], 0.25, 1e-12);
}

TEST(OverlappedSlots, WithoutPairsThereIsNothing) {
  Drawing pair, forward, two;
  pair.add(0, "FB", 0, 10);
  forward.add(0, "F", 0, 10);
  two.add(0, "FB", 0, 10).add(0, "FB", 10, 10);
  const Timeline one = pair.done(), none = forward.done();
  EXPECT_FALSE(compare(none, none).overlapped);
  EXPECT_FALSE(compare(one, none).overlapped);
  EXPECT_FALSE(compare(one, two.done()).overlapped);
  EXPECT_FALSE(compare(one, Timeline()).overlapped);
}

}  // namespace
}  // namespace plumbline::model
