// The shipped case over published training steps, without the wiring that `plumbline validate` adds. A profile whose
// uncertainty of a predicted step was measured over several steps must give the root mean square of its errors over
// these steps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "calibrate/validate/step_comparison.h"
#include "model/base/text_file.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {
namespace {

using calibrate::ComparedStep;
using calibrate::StepComparison;

// Compares the rows of a case with its profiles, but those of `instead` for its hardware.
StepComparison compared_steps(const std::string& name, const std::map<std::string, std::string>& instead = {}) {
  auto definition = calibrate::load_step_case(shipped("calibrate/cases/" + name + ".toml")).value();
  for (calibrate::StepHardware& hardware : definition.hardware)
    if (const auto other = instead.find(hardware.name); other != instead.end()) hardware.profile = other->second;
  std::vector<calibrate::PublishedStep> rows;
  for (const std::string& table : definition.tables) {
    auto read = calibrate::read_published_steps(shipped("calibrate/published/" + table + ".csv")).value();
    rows.insert(rows.end(), read.begin(), read.end());
  }
  return calibrate::compare_steps(definition, rows, inputs_of_plan);
}

void expect_a_plan_of_every_row_that_states_layout_and_time(const StepComparison& comparison, std::size_t rows) {
  std::size_t planned = 0;
  for (const ComparedStep& row : comparison.steps) {
    planned += row.lacking.empty();
    EXPECT_FALSE(row.error) << row.step.id << ": " << to_string(*row.error);
    EXPECT_EQ(row.predicted.has_value(), row.lacking.empty()) << row.step.id;
  }
  EXPECT_EQ(planned, rows);
}

void expect_predictions_above_their_lower_bound(const StepComparison& comparison) {
  for (const ComparedStep& row : comparison.steps) {
    if (!row.predicted) continue;
    EXPECT_GT(*row.predicted, row.baseline.value() * comparison.definition.naive_mfu) << row.step.id;
  }
}

void expect_errors_that_the_case_tolerates(const StepComparison& comparison) {
  for (const calibrate::ComparedDemand& row : comparison.demands) {
    const calibrate::StepErrors& errors = row.summary.prediction;
    fmt::print("{}: {} rows, mean absolute error {:.1f} %, bias {:+.1f} %; baseline {:.1f} %\n", row.demand.name,
               errors.rows, errors.mean_absolute * 100, errors.bias * 100, row.summary.baseline.mean_absolute * 100);
    EXPECT_TRUE(row.holds()) << row.demand.name;
  }
}

using Errors = std::map<std::string, std::vector<double>>;  // of each profile

// Adds the errors of the rows that are predicted with each profile.
void add_errors(const StepComparison& comparison, Errors& errors) {
  for (const ComparedStep& row : comparison.steps)
    if (row.prediction_error()) errors[row.profile].push_back(*row.prediction_error());
}

void expect_stated(const std::string& profile, const std::vector<double>& errors) {
  double squares = 0;
  for (const double error : errors) squares += error * error;
  const double spread = std::sqrt(squares / static_cast<double>(errors.size()));
  const model::Profile loaded = model::load_profile(shipped("calibrate/profiles/" + profile + ".toml")).value();
  const double stated = loaded.parameters()[loaded.find("prediction.step_uncertainty").value()].value;
  fmt::print("{}: {} rows, root mean square {:.1f} %, stated {:.1f} %\n", profile, errors.size(), spread * 100,
             stated * 100);
  // Profiles give two digits of the errors with wiring; those without differ a little.
  EXPECT_NEAR(stated, spread, 0.02) << profile;
}

// One comparison serves all expectations, because it takes seconds.
TEST(PublishedSteps, ArePredictedWithinWhatCaseAndProfilesState) {
  // 88 less those without a layout or a time: sc210012, tt0033 to tt0037, mch0005 to mch0014; 540 less fold0090, whose
  // layout is not stated, and runs that ended for lack of memory.
  Errors errors;
  for (const auto& [name, rows] : {std::pair("published-steps", 72u), std::pair("development-steps", 539u)}) {
    const StepComparison comparison = compared_steps(name);
    expect_a_plan_of_every_row_that_states_layout_and_time(comparison, rows);
    expect_predictions_above_their_lower_bound(comparison);
    expect_errors_that_the_case_tolerates(comparison);
    add_errors(comparison, errors);
  }
  for (const char* profile : {"a100", "a100-40gb", "v100-datasheet", "h100", "h100-500w-torch", "b200-torch"})
    expect_stated(profile, errors.at(profile));
}

TEST(StepUncertainty, OfDatasheetProfilesIsTheErrorOfTheSameRowsPredictedWithThem) {
  Errors errors;
  for (const char* name : {"published-steps", "development-steps"})
    add_errors(compared_steps(name, {{"A100 80GB", "a100-datasheet"},
                                     {"A100 80GB JZ", "a100-datasheet"},
                                     {"A100 40GB", "a100-datasheet"},
                                     {"H100 80GB", "generic-datasheet"},
                                     {"H200", "generic-datasheet"}}),
               errors);
  expect_stated("a100-datasheet", errors.at("a100-datasheet"));
  expect_stated("generic-datasheet", errors.at("generic-datasheet"));
}

TEST(StepUncertainty, EveryShippedProfileStatesOne) {
  for (const std::string& name : model::names_in_folder(shipped("calibrate/profiles"), ".toml")) {
    const model::Profile profile = model::load_profile(shipped("calibrate/profiles/" + name + ".toml")).value();
    const auto index = profile.find("prediction.step_uncertainty");
    ASSERT_TRUE(index) << name;
    EXPECT_GT(profile.parameters()[*index].value, 0) << name;
    EXPECT_LT(profile.parameters()[*index].value, 1) << name;
  }
}

}  // namespace
}  // namespace plumbline::tests
