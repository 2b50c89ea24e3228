// The time budget of a sweep of cases.
#include <gtest/gtest.h>

#include <string>

#include "real/measure/kernel_case/case_sweep.h"

namespace plumbline::real {
namespace {

TEST(MeasureBudget, ReadsDurations) {
  EXPECT_EQ(parse_duration("8m"), 480);
  EXPECT_EQ(parse_duration("90s"), 90);
  EXPECT_EQ(parse_duration("1.5h"), 5400);
  EXPECT_EQ(parse_duration("42"), 42);
  for (const char* wrong : {"", "m", "0", "-3", "8x", "8 m", "nan", "inf", "1e30h"})
    EXPECT_FALSE(parse_duration(wrong).has_value()) << wrong;
}

TEST(MeasureBudget, WhatWouldRunPastTheEndDoesNotFit) {
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

TEST(MeasureBudget, WithoutALimitEverythingFits) {
  const Budget budget(std::nullopt, [] { return 0.0; });
  EXPECT_TRUE(budget.fits(1e9));
  EXPECT_FALSE(budget.left().has_value());
}

TEST(MeasureBudget, EstimatesAreCorrectedByWhatCasesTook) {
  Budget budget(10, [] { return 0.0; });
  // The case is twice as slow as estimated: a correction of 1 * 0.75 + 2 * 0.25 = 1.25, so that exactly 8 s fit.
  budget.spent(1, 2);
  EXPECT_TRUE(budget.fits(8));
  EXPECT_FALSE(budget.fits(8.01));
  // One odd case changes the correction by at most a factor of ten.
  budget.spent(1, 1e6);
  EXPECT_TRUE(budget.fits(1));
  EXPECT_FALSE(budget.fits(1.01));
}

TEST(MeasureBudget, EstimatesGrowWithTheWork) {
  const auto seconds = [](const std::string& line, double floor_s) {
    return estimated_seconds(parse_kernel_case(line).value(), floor_s, 30);
  };
  EXPECT_GT(seconds("copy bytes=1073741824", 447e-6), seconds("copy bytes=1048576", 0.4e-6));
  EXPECT_GT(seconds("gemm phase=F format=bf16 m=64 n=64 k=64 soak=5", 0), 5);
  // Floor 1112 us, twice that, two variants of 30 samples and 5 warm-ups: 0.156 s and a little.
  EXPECT_NEAR(seconds("gemm phase=F format=bf16 m=8192 n=8192 k=8192", 1112e-6), 0.156, 0.12);
  EXPECT_LT(seconds("launch", 0), 1);
  // A case that a device cannot run takes no time beyond the attempt.
  EXPECT_EQ(seconds("launch", -1), seconds("launch", 0));
}

TEST(MeasureBudget, WhatIsSoakedIsSampledInOneGo) {
  EXPECT_EQ(rounds_of(parse_kernel_case("gemm phase=F format=bf16 m=64 n=64 k=64 soak=5").value()), 1U);
  EXPECT_EQ(rounds_of(parse_kernel_case("copy bytes=64").value()), 5U);
}

}  // namespace
}  // namespace plumbline::real
