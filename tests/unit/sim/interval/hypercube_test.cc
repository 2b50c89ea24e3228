#include "sim/interval/hypercube.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace plumbline::sim {
namespace {

// z from tables of the normal distribution (Abramowitz and Stegun, table 26.1 and its inverse).
TEST(NormalQuantile, EqualsTables) {
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-12);
  EXPECT_NEAR(normal_quantile(0.9), 1.2815515655446004, 1e-12);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-12);
  EXPECT_NEAR(normal_quantile(1e-9), -5.997807015008182, 1e-9);
}

TEST(NormalQuantile, InvertsTheDistribution) {
  for (double probability = 1e-6; probability < 1; probability += 0.001)
    EXPECT_NEAR(std::erfc(-normal_quantile(probability) / std::numbers::sqrt2) / 2, probability, 1e-14);
}

TEST(Hypercube, HasOneNumberInEachStratum) {
  constexpr std::size_t draws = 128;
  std::vector<double> column = uniform_column("gemm.bf16.k_time", 1, draws);
  ASSERT_EQ(column.size(), draws);
  EXPECT_FALSE(std::ranges::is_sorted(column));
  std::ranges::sort(column);
  for (std::size_t i = 0; i < draws; ++i) EXPECT_EQ(static_cast<std::size_t>(column[i] * draws), i);
}

TEST(Hypercube, DependsOnKeyAndSeed) {
  const auto column = normal_column("a", 1, 64);
  EXPECT_EQ(column, normal_column("a", 1, 64));
  EXPECT_NE(column, normal_column("b", 1, 64));
  EXPECT_NE(column, normal_column("a", 2, 64));
}

// FNV-1a of the key, exclusive-or the first number of the seed, starts SplitMix64; its numbers shuffle the strata from
// the last and place the draws within them. These four were computed apart, in Python.
TEST(Hypercube, IsTheSameOnEveryMachine) {
  const std::vector<double> expected = {0.037969237934359565, 0.6314097087627102, 0.4263525419370868,
                                        0.7976385434188858};
  const auto column = uniform_column("price", 1, 4);
  ASSERT_EQ(column.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_DOUBLE_EQ(column[i], expected[i]);
}

// Columns of different keys are independent: their correlation over 1,024 draws has a standard deviation of 1/32.
TEST(Hypercube, ColumnsDoNotCorrelate) {
  const auto one = normal_column("one", 1, 1024), other = normal_column("other", 1, 1024);
  double sum = 0;
  for (std::size_t i = 0; i < one.size(); ++i) sum += one[i] * other[i] / 1024;
  EXPECT_LT(std::abs(sum), 4.0 / 32);
}

}  // namespace
}  // namespace plumbline::sim
