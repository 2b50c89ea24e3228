// Scores of intervals on values that were drawn from known distributions.
#include "calibrate/validate/interval_score.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/base/random.h"

namespace plumbline::calibrate {
namespace {

constexpr std::size_t rows = 4000;
constexpr double truth = 0.2;  // standard deviation of the logarithm

// Returns ranges of lognormal predictions with this shift and deviation, for values whose logarithm has the middle 0
// and the deviation `truth`.
std::vector<PredictedRange> drawn(double shift, double deviation) {
  model::Random random(7);
  std::vector<PredictedRange> ranges;
  for (std::size_t row = 0; row < rows; ++row)
    ranges.push_back(lognormal_range(std::exp(shift), deviation, std::exp(truth * random.normal())));
  return ranges;
}

// The share of 4,000 rows varies by sqrt(0.8 * 0.2 / 4000) = 0.6 %, a tenth of them by sqrt(4000 * 0.1 * 0.9) = 19.
TEST(IntervalScore, OfTheTrueDistributionCoversEightOfTenEvenly) {
  const IntervalScore score = score_of(drawn(0, truth));
  EXPECT_EQ(score.rows, rows);
  EXPECT_NEAR(score.coverage, 0.8, 0.02);
  EXPECT_NEAR(score.half_width, std::sinh(1.2815515655446004 * truth), 1e-12);
  for (const std::size_t count : score.tenths) EXPECT_NEAR(static_cast<double>(count), rows / 10.0, 4 * 19.0);
}

TEST(IntervalScore, ShowsWhatIsWrong) {
  const IntervalScore narrow = score_of(drawn(0, truth / 2)), wide = score_of(drawn(0, truth * 2));
  const IntervalScore low = score_of(drawn(-truth, truth));
  EXPECT_LT(narrow.coverage, 0.55);  // 2 Phi(0.64) - 1 = 0.48
  EXPECT_GT(wide.coverage, 0.95);    // 2 Phi(2.56) - 1 = 0.99
  EXPECT_GT(narrow.tenths.front() + narrow.tenths.back(), 2 * rows / 5);
  EXPECT_LT(wide.tenths.front() + wide.tenths.back(), rows / 20);
  EXPECT_GT(low.tenths.back(), 3 * rows / 10);
  EXPECT_LT(low.tenths.front(), rows / 50);
}

// The loss over the measured value is least a little below the true quantiles, since low values weigh more; a shift by
// a quarter of the deviation costs more than that.
TEST(IntervalScore, PinballIsLeastAtTheTruth) {
  const double best = score_of(drawn(0, truth)).pinball;
  EXPECT_GT(best, 0);
  for (const auto& [shift, factor] : {std::pair(0.0, 0.5), {0.0, 2.0}, {0.5, 1.0}, {-0.5, 1.0}})
    EXPECT_GT(score_of(drawn(shift * truth, factor * truth)).pinball, best) << shift << " " << factor;
}

// Of 1 to 11 the quantiles are 2, 6 and 10, and 4 values lie below 4.5. Losses: 0.1 * 2.5, 0.5 * 1.5 and 0.1 * 5.5, in
// all 1.55; over 4.5 and three quantiles 0.1148.
TEST(IntervalScore, OfEquallyLikelyValues) {
  std::vector<double> values;
  for (int i = 11; i > 0; --i) values.push_back(i);
  const PredictedRange range = range_of(values, 4.5);
  EXPECT_EQ(range.quantiles, (model::Quantiles{2, 6, 10}));
  EXPECT_DOUBLE_EQ(range.below, 4.0 / 11);
  EXPECT_TRUE(range.covers());
  EXPECT_FALSE(range_of(values, 10.5).covers());
  const IntervalScore score = score_of({range});
  EXPECT_NEAR(score.pinball, 1.55 / 4.5 / 3, 1e-15);
  EXPECT_DOUBLE_EQ(score.half_width, 8.0 / 2 / 6);
  EXPECT_EQ(score.tenths[3], 1u);
}

TEST(IntervalScore, OfNothingIsNothing) { EXPECT_EQ(score_of({}).rows, 0u); }

// A large sample of a lognormal distribution has its quantiles.
TEST(IntervalScore, SamplesAndFormulaAgree) {
  model::Random random(3);
  std::vector<double> values(200'000);
  std::ranges::generate(values, [&] { return 5 * std::exp(truth * random.normal()); });
  const PredictedRange sampled = range_of(values, 5.5), exact = lognormal_range(5, truth, 5.5);
  EXPECT_NEAR(sampled.quantiles.p10, exact.quantiles.p10, 0.02);
  EXPECT_NEAR(sampled.quantiles.p50, exact.quantiles.p50, 0.02);
  EXPECT_NEAR(sampled.quantiles.p90, exact.quantiles.p90, 0.02);
  EXPECT_NEAR(sampled.below, exact.below, 0.005);
}

}  // namespace
}  // namespace plumbline::calibrate
