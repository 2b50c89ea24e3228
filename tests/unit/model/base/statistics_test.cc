#include "model/base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace plumbline::model {
namespace {

// Place 0.9 * 3 = 2.7 of 1, 2, 4, 8: 4 + 0.7 * 4.
TEST(Quantile, LiesBetweenItsNeighbors) {
  EXPECT_DOUBLE_EQ(quantile({8, 1, 4, 2}, 0.9), 6.8);
  EXPECT_DOUBLE_EQ(quantile({8, 1, 4, 2}, 0.5), 3);
  EXPECT_EQ(quantile({8, 1, 4, 2}, 0), 1);
  EXPECT_EQ(quantile({8, 1, 4, 2}, 1), 8);
  EXPECT_EQ(quantile({3}, 0.5), 3);
}

// Place 0.5 * 3 = 1.5 lies between two infinite values, 0.1 * 3 between finite ones.
TEST(Quantile, MayBeInfinite) {
  constexpr double never = std::numeric_limits<double>::infinity();
  EXPECT_EQ(quantile({1, never, never, never}, 0.5), never);
  EXPECT_DOUBLE_EQ(quantile({1, 2, never, never}, 0.1), 1.3);
}

TEST(UpperMedian, IsTheLargerOfTwo) {
  EXPECT_EQ(upper_median<std::int64_t>({5, 1, 3}), 3);
  EXPECT_EQ(upper_median<double>({5, 1, 3, 4}), 4);
}

// Of two normal draws 1 / sqrt(pi), of three 1.5 / sqrt(pi); 2.3439 of 64 is tabulated (Harter 1961: 2.34 of 64).
TEST(ExpectedLargest, IsThatOfNormalDraws) {
  EXPECT_EQ(expected_largest(1), 0);
  EXPECT_NEAR(expected_largest(2), 1 / std::sqrt(std::numbers::pi), 1e-6);
  EXPECT_NEAR(expected_largest(3), 1.5 / std::sqrt(std::numbers::pi), 1e-6);
  EXPECT_NEAR(expected_largest(64), 2.344, 0.001);
  EXPECT_GT(expected_largest(1 << 20), 4.5);
}

}  // namespace
}  // namespace plumbline::model
