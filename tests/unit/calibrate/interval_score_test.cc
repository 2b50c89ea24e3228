// Scores of intervals on values that were drawn from known distributions.
#include "calibrate/validate/interval_score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "model/base/random.h"

namespace plumbline::calibrate {
namespace {

constexpr std::size_t scored_rows = 4000;
constexpr double true_deviation = 0.2;  // standard deviation of the logarithm

// Returns ranges of lognormal predictions with this shift and deviation, for values whose logarithm has the middle 0
// and the deviation `true_deviation`.
std::vector<PredictedRange> drawn(double shift, double deviation) {
  model::Random random(7);
  std::vector<PredictedRange> ranges;
  for (std::size_t row = 0; row < scored_rows; ++row)
    ranges.push_back(lognormal_range(std::exp(shift), deviation, std::exp(true_deviation * random.normal())));
  return ranges;
}

// The share of 4,000 rows varies by sqrt(0.8 * 0.2 / 4000) = 0.6 %, a tenth of them by sqrt(4000 * 0.1 * 0.9) = 19.
TEST(IntervalScore, OfTheTrueDistributionCoversEightOfTenEvenly) {
  const IntervalScore score = score_of(drawn(0, true_deviation));
  EXPECT_EQ(score.rows, scored_rows);
  EXPECT_NEAR(score.coverage, 0.8, 0.02);
  EXPECT_NEAR(score.half_width, std::sinh(1.2815515655446004 * true_deviation), 1e-12);
  for (const std::size_t count : score.tenths) EXPECT_NEAR(static_cast<double>(count), scored_rows / 10.0, 4 * 19.0);
}

TEST(IntervalScore, ShowsWhatIsWrong) {
  const IntervalScore narrow = score_of(drawn(0, true_deviation / 2)), wide = score_of(drawn(0, true_deviation * 2));
  const IntervalScore low = score_of(drawn(-true_deviation, true_deviation));
  EXPECT_LT(narrow.coverage, 0.55);  // 2 Phi(0.64) - 1 = 0.48
  EXPECT_GT(wide.coverage, 0.95);    // 2 Phi(2.56) - 1 = 0.99
  EXPECT_GT(narrow.tenths.front() + narrow.tenths.back(), 2 * scored_rows / 5);
  EXPECT_LT(wide.tenths.front() + wide.tenths.back(), scored_rows / 20);
  EXPECT_GT(low.tenths.back(), 3 * scored_rows / 10);
  EXPECT_LT(low.tenths.front(), scored_rows / 50);
}

// The loss over the measured value is least a little below the true quantiles, since low values weigh more; a shift by
// a quarter of the deviation costs more than that.
TEST(IntervalScore, PinballIsLeastAtTheTruth) {
  const double best = score_of(drawn(0, true_deviation)).pinball;
  EXPECT_GT(best, 0);
  for (const auto& [shift, factor] : {std::pair(0.0, 0.5), {0.0, 2.0}, {0.5, 1.0}, {-0.5, 1.0}})
    EXPECT_GT(score_of(drawn(shift * true_deviation, factor * true_deviation)).pinball, best) << shift << " " << factor;
}

// Losses: 0.1 * 2.5, 0.5 * 1.5 and 0.1 * 5.5, in all 1.55; over 4.5 and three quantiles 0.1148.
TEST(IntervalScore, OfOneRange) {
  const IntervalScore score = score_of({{{2, 6, 10}, 4.5}});
  EXPECT_NEAR(score.pinball, 1.55 / 4.5 / 3, 1e-15);
  EXPECT_DOUBLE_EQ(score.half_width, 8.0 / 2 / 6);
  EXPECT_DOUBLE_EQ(score.coverage, 1);
  EXPECT_DOUBLE_EQ(score.middle.bias, 6 / 4.5 - 1);
  EXPECT_EQ(score.tenths[3], 1u);  // ln(6 / 4.5) is 0.26 of ln(6 / 2), 0.34 deviations: 37 %
  EXPECT_EQ(score_of({{{2, 6, 10}, 10.5}}).coverage, 0);
  EXPECT_EQ(score_of({}).rows, 0u);
}

// A plan that fits with a probability of 0.9 and ran has a square of 0.01, one that did not 0.81.
TEST(IntervalScore, OfWhetherPlansFit) {
  std::vector<RowRanges> plans(3);
  plans[0].fits_probability = plans[1].fits_probability = plans[2].fits_probability = 0.9;
  plans[0].ran = true, plans[1].ran = false;
  EXPECT_NEAR(scores_of(plans).fits.brier, 0.41, 1e-15);
  EXPECT_EQ(scores_of(plans).fits.fit, 0u);  // not sure of either
  plans[0].fits_probability = plans[1].fits_probability = 0.97;
  plans.push_back({});
  plans[3].fits_probability = 0.02;
  plans[3].ran = true;
  const FitVerdicts verdicts = scores_of(plans).fits;
  EXPECT_EQ(verdicts.rows, 3u);
  EXPECT_EQ(verdicts.fit, 2u);
  EXPECT_EQ(verdicts.fit_wrong, 1u);
  EXPECT_EQ(verdicts.unfit, 1u);
  EXPECT_EQ(verdicts.unfit_wrong, 1u);
}

}  // namespace
}  // namespace plumbline::calibrate
