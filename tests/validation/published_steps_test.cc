// The shipped case over published training steps, by the closed form so that it is quick; `plumbline validate` runs
// every slot of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "calibrate/validate/step_comparison.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {
namespace {

using calibrate::ComparedStep;

const calibrate::StepComparison& shipped_steps() {
  static const calibrate::StepComparison comparison = [] {
    const auto definition = calibrate::load_step_case(shipped("calibrate/cases/published-steps.toml")).value();
    const auto rows =
        calibrate::read_published_steps(shipped("calibrate/published/" + definition.table + ".csv")).value();
    return calibrate::compare_steps(definition, rows, inputs_of_plan, sim::Fidelity::closed_form);
  }();
  return comparison;
}

TEST(PublishedSteps, EveryRowThatStatesItsLayoutAndTimeHasAPlan) {
  std::size_t planned = 0;
  for (const ComparedStep& row : shipped_steps().steps) {
    planned += row.lacking.empty();
    EXPECT_FALSE(row.error) << row.step.id << ": " << to_string(*row.error);
    EXPECT_EQ(row.predicted.has_value(), row.lacking.empty()) << row.step.id;
  }
  // 88 less those without a layout or a time: sc210012, tt0033 to tt0037, mch0005 to mch0014.
  EXPECT_EQ(planned, 72u);
}

TEST(PublishedSteps, PredictionsAreAboveTheirLowerBound) {
  for (const ComparedStep& row : shipped_steps().steps) {
    if (!row.predicted) continue;
    EXPECT_GT(*row.predicted, row.baseline.value() * shipped_steps().definition.naive_mfu) << row.step.id;
  }
}

TEST(PublishedSteps, ErrorsAreWithinWhatTheCaseTolerates) {
  for (const calibrate::ComparedDemand& row : shipped_steps().demands) {
    const calibrate::StepErrors& errors = row.summary.prediction;
    fmt::print("{}: {} rows, mean absolute error {:.1f} %, bias {:+.1f} %; baseline {:.1f} %\n", row.demand.name,
               errors.rows, errors.mean_absolute * 100, errors.bias * 100, row.summary.baseline.mean_absolute * 100);
    EXPECT_TRUE(row.holds()) << row.demand.name;
  }
}

}  // namespace
}  // namespace plumbline::tests
