// The GPU probe's time budget.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "real/cuda/probe/budget.h"
#include "real/cuda/probe/sweep.h"

namespace plumbline::real::cuda {
namespace {

TEST(ProbeBudget, ReadsDurations) {
  EXPECT_EQ(parse_duration("8m"), 480);
  EXPECT_EQ(parse_duration("90s"), 90);
  EXPECT_EQ(parse_duration("1.5h"), 5400);
  EXPECT_EQ(parse_duration("42"), 42);
  for (const char* wrong : {"", "m", "0", "-3", "8x", "8 m", "nan", "inf", "1e30h"}) {
    EXPECT_FALSE(parse_duration(wrong).has_value()) << wrong;
  }
}

TEST(ProbeBudget, WhatWouldRunPastTheEndDoesNotFit) {
  double now = 100;
  Budget budget(10, [&] { return now; });
  EXPECT_TRUE(budget.fits(10));
  EXPECT_FALSE(budget.fits(10.1));
  now = 107;
  EXPECT_DOUBLE_EQ(budget.elapsed(), 7);
  EXPECT_DOUBLE_EQ(*budget.left(), 3);
  EXPECT_TRUE(budget.fits(2.9));
  EXPECT_FALSE(budget.fits(3.1));
  now = 111;
  EXPECT_FALSE(budget.fits(0.001));
}

TEST(ProbeBudget, WithoutALimitEverythingFits) {
  const Budget budget(std::nullopt, [] { return 0.0; });
  EXPECT_TRUE(budget.fits(1e9));
  EXPECT_FALSE(budget.left().has_value());
}

TEST(ProbeBudget, EstimatesAreCorrectedByWhatCasesTook) {
  Budget budget(10, [] { return 0.0; });
  // Twice as slow as estimated: a correction of 1 * 0.75 + 2 * 0.25 = 1.25, so that 8 s are all that fits.
  budget.spent(1, 2);
  EXPECT_TRUE(budget.fits(8));
  EXPECT_FALSE(budget.fits(8.01));
  // One odd case says at most a factor of ten.
  budget.spent(1, 1e6);
  EXPECT_TRUE(budget.fits(1));
  EXPECT_FALSE(budget.fits(1.01));
}

TEST(ProbeBudget, EstimatesGrowWithTheWork) {
  const DevicePeak& h200 = *find_peak("h200");
  const auto seconds = [&](const std::string& line) { return estimated_seconds(parse_case(line).value, h200, 30); };
  EXPECT_GT(seconds("copy bytes=1073741824"), seconds("copy bytes=1048576"));
  EXPECT_GT(seconds("gemm phase=F format=bf16 m=64 n=64 k=64 soak=5"), 5);
  // Floor 1112 us, twice that, two variants of 30 samples and 5 warm-ups: 0.156 s and a little.
  EXPECT_NEAR(seconds("gemm phase=F format=bf16 m=8192 n=8192 k=8192"), 0.156, 0.12);
  EXPECT_LT(seconds("launch"), 1);
}

// Plays the sweep against a clock in which every case takes as long as estimated.
TEST(ProbeBudget, ASweepStopsInTimeAndKeepsTheMostValuable) {
  double now = 0;
  Budget budget(30, [&] { return now; });
  std::vector<bool> measured;
  for (const Case& value : built_in_sweep()) {
    const double estimate = estimated_seconds(value, *find_peak("h200"), 30);
    measured.push_back(budget.fits(estimate));
    if (!measured.back()) continue;
    now += estimate;
    budget.spent(estimate, estimate);
  }
  EXPECT_LE(now, 30);
  EXPECT_GT(now, 29);  // the time is used
  for (std::size_t i = 0; i < 20; ++i) EXPECT_TRUE(measured[i]) << i;
  EXPECT_FALSE(measured.back());
}

TEST(ProbeBudget, TheWholeSweepIsMeantToFitIntoEightMinutes) {
  double total = 0;
  for (const Case& value : built_in_sweep()) total += estimated_seconds(value, *find_peak("h200"), 30);
  EXPECT_LT(total, 480);
}

}  // namespace
}  // namespace plumbline::real::cuda
