#include <gtest/gtest.h>

#include "model/result/result.h"

namespace plumbline::model {
namespace {

// The quantiles have their own probabilities; beyond them each side is a lognormal of its own. Twice the distance of
// p90 is 2 * 1.28155 standard deviations: the normal distribution has 0.99481 below that.
TEST(Quantiles, HaveAShareBelowEveryValue) {
  const Quantiles predicted = {0.8, 1, 1.5};
  EXPECT_NEAR(predicted.share_below(0.8), 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(predicted.share_below(1), 0.5);
  EXPECT_NEAR(predicted.share_below(1.5), 0.9, 1e-12);
  EXPECT_NEAR(predicted.share_below(2.25), 0.99481, 1e-5);
  EXPECT_TRUE(predicted.contains(1.5));
  EXPECT_FALSE(predicted.contains(0.79));
  const Quantiles exact = {1, 1, 1};
  EXPECT_EQ(exact.share_below(0.9), 0);
  EXPECT_EQ(exact.share_below(1), 0.5);
  EXPECT_EQ(exact.share_below(1.1), 1);
}

}  // namespace
}  // namespace plumbline::model
