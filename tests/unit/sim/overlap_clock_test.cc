#include "sim/predict/detail/overlap_clock.h"

#include <gtest/gtest.h>

namespace plumbline::sim {
namespace {

OverlapClock clock_of(double slowdown) {
  OverlapClock clock;
  clock.restart(slowdown);
  return clock;
}

TEST(OverlapClock, ComputesAtFullRateWithoutCollectives) {
  OverlapClock clock = clock_of(2);
  clock.compute(3, 1.5);
  EXPECT_DOUBLE_EQ(clock.now(), 3);
  EXPECT_EQ(clock.slowed(), 0);
}

// The collective takes 2 * 3 s next to compute, in which 6 / 1.5 = 4 s of compute are done; 6 of 10 are left.
TEST(OverlapClock, BothAreSlowerWhileBothRun) {
  OverlapClock clock = clock_of(2);
  const std::size_t collective = clock.post(3);
  clock.compute(10, 1.5);
  EXPECT_DOUBLE_EQ(clock.end_of(collective), 6);
  EXPECT_DOUBLE_EQ(clock.now(), 12);
  EXPECT_DOUBLE_EQ(clock.slowed(), 2);
}

// After 1 s of compute, which takes 1.5 s, 0.75 s of the collective are done; the other 2.25 s have full rate.
TEST(OverlapClock, ACollectiveThatIsWaitedForHasItsFullRate) {
  OverlapClock clock = clock_of(2);
  const std::size_t collective = clock.post(3);
  clock.compute(1, 1.5);
  EXPECT_DOUBLE_EQ(clock.wait_for(collective), 2.25);
  EXPECT_DOUBLE_EQ(clock.now(), 3.75);
  EXPECT_TRUE(clock.idle());
}

TEST(OverlapClock, CollectivesRunOneAfterTheOther) {
  OverlapClock clock = clock_of(1);
  const std::size_t first = clock.post(2), second = clock.post(5);
  clock.wait_until(3);
  EXPECT_DOUBLE_EQ(clock.end_of(first), 2);
  EXPECT_DOUBLE_EQ(clock.end_of(second), 7);
  EXPECT_DOUBLE_EQ(clock.wait_for(second), 4);
  EXPECT_EQ(clock.wait_for(first), 0);
}

}  // namespace
}  // namespace plumbline::sim
