#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "sim/interval/interval.h"

namespace plumbline::sim {
namespace {

std::optional<double> bubble(const model::StepTimes& step) { return step.bubble_s; }

// A step of 10 s with a bubble of 2 s, and as many draws of it in which both are `longer`; what makes whole steps
// longer adds `whole` to that.
StepDraws draws_of(double longer, double whole) {
  StepDraws draws;
  draws.step.time_s = 10;
  draws.step.bubble_s = 2;
  for (int i = 0; i < 16; ++i) {
    model::StepTimes step;
    step.time_s = 10 * longer;
    step.bubble_s = 2 * longer;
    draws.steps.push_back(step);
    draws.time_ratio.push_back(longer * whole);
  }
  return draws;
}

// In a result whose bubble is 3 s, where its closed form has 2 s, all draws take 3 * 1.1 * 1.2 s.
TEST(PartInterval, HasTheRatiosOfTheDrawsAndOfWholeSteps) {
  const auto interval = part_interval(draws_of(1.1, 1.2), {}, 3, bubble);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->p10, 3.96, 1e-12);
  EXPECT_NEAR(interval->p90, 3.96, 1e-12);
}

// What is left moves the middle by its location, and widens the interval.
TEST(PartInterval, HasWhatIsLeft) {
  const auto interval = part_interval(draws_of(1, 1), {.location = 0.07, .common = 0.1}, 3, bubble);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->p50, 3 * std::exp(0.07), 0.02);
  EXPECT_NEAR(interval->p90, 3 * std::exp(0.07 + 1.2816 * 0.1), 0.05);
}

TEST(PartInterval, AStepWithoutThePartHasNone) {
  StepDraws draws = draws_of(1.1, 1);
  draws.step.bubble_s = 0;
  EXPECT_FALSE(part_interval(draws, {}, 3, bubble));
  draws.step.bubble_s.reset();
  EXPECT_FALSE(part_interval(draws, {}, 3, bubble));
}

}  // namespace
}  // namespace plumbline::sim
