// Order of plans, regret, and the regression of residuals, on rows whose answer is known.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "calibrate/residuals/regression.h"
#include "tests/support/step_inputs.h"

namespace plumbline::calibrate {
namespace {

OrderedRow ordered(const char* run, const char* plan, double measured, double predicted) {
  return {"ours", run, plan, false, measured, predicted};
}

// Plans a < b < c are measured in this order; c is predicted fastest. Of three pairs two are in the wrong order, so tau
// is (1 - 2) / 3. The choice costs 1.3 / 1 - 1, a random one 1.1333 - 1. The run of a single plan does not count.
TEST(PlanOrders, CountPairsAndRegretWithinRuns) {
  const auto orders = plan_orders(
      {ordered("x", "a", 1, 2), ordered("x", "b", 1.1, 2.1), ordered("x", "c", 1.3, 1.5), ordered("y", "a", 5, 1)});
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].clusters, 1u);
  EXPECT_EQ(orders[0].rows, 3u);
  EXPECT_NEAR(orders[0].tau, -1.0 / 3, 1e-12);
  EXPECT_NEAR(orders[0].regret, 0.3, 1e-12);
  EXPECT_NEAR(orders[0].random_regret, 3.4 / 3 - 1, 1e-12);
}

TEST(PlanOrders, AverageRepetitions) {
  const auto orders = plan_orders({ordered("x", "a", 1, 2), ordered("x", "a", 3, 2), ordered("x", "b", 1.9, 1.9)});
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].rows, 2u);
  EXPECT_EQ(orders[0].tau, 1);  // 2 and 1.9, predicted 2 and 1.9
}

// Residuals of ln 1.1 and -ln 1.1 around their mean, one degree of freedom: ln 1.1 * sqrt(2).
TEST(ClusterScatter, IsAroundTheMeanOfEachRun) {
  const ClusterScatter scatter = cluster_scatter({ordered("x", "a", 1, 2.2), ordered("x", "b", 1, 2 / 1.1)});
  EXPECT_NEAR(scatter.layouts, std::log(1.1) * std::sqrt(2), 1e-12);
  EXPECT_EQ(scatter.schedules, 0);
}

// Steps that were predicted with GEMMs 20 % and launches 3 us too short.
TEST(ResidualRegression, FindsWhatPredictionsLack) {
  std::vector<ResidualRow> rows;
  for (int i = 0; i < 40; ++i) {
    ResidualRow row{"ours", 0, 1, {}};
    row.shares = {0.3 + 0.01 * i, 0.1, 0.2, 0.001 * (i % 7), 0.02 * (i % 3), 0.01 * (i % 5)};
    row.measured = row.predicted + 0.2 * row.shares[0] + 3 * row.shares[3];
    rows.push_back(row);
  }
  const auto found = residual_regressions(rows);
  ASSERT_EQ(found.size(), 1u);
  const auto& causes = found[0].causes;
  EXPECT_NEAR(causes[static_cast<std::size_t>(StepCause::gemms)].excess, 0.2, 0.02);
  EXPECT_NEAR(causes[static_cast<std::size_t>(StepCause::launches)].excess, 3, 0.3);
  EXPECT_LT(found[0].after, 0.05 * found[0].before);
}

// Shares of kernels and exposed links add up to the step less what is counted in none of them (launch gaps).
TEST(StepShares, AddUpToTheStep) {
  const sim::Inputs inputs = tests::step_inputs(tests::llama_plan, "h800");
  sim::PredictorPool predictors;
  const auto shares = step_shares(inputs, predictors);
  ASSERT_TRUE(shares) << to_string(shares.error());
  const double step =
      predictors.with(inputs, [&](sim::Predictor& predictor) { return predictor.closed_form(inputs.plan).value(); })
          .step.time_s;
  double sum = 0;
  for (const StepCause cause : {StepCause::gemms, StepCause::attention, StepCause::memory_bound, StepCause::links})
    sum += (*shares)[static_cast<std::size_t>(cause)];
  EXPECT_LT(sum, step * 1.001);
  EXPECT_GT(sum, step * 0.9);
}

}  // namespace
}  // namespace plumbline::calibrate
