// A stack fitted to a user's own steps: what rows determine, what they leave, and what is refused.
#include <gtest/gtest.h>

#include <vector>

#include "calibrate/fit/refinement.h"
#include "sim/predict/predictor.h"
#include "tests/support/step_inputs.h"

namespace plumbline::calibrate {
namespace {

model::Parameter constant(const char* name, double value, const char* unit) {
  return {name, value, unit, model::Evidence::assumed, "a test", 0.5};
}

// Returns the plan at a sequence length, with a host that takes `launch` us for each kernel, and a constant on which no
// step depends.
sim::Inputs inputs_with(double launch, int sequence) {
  sim::Inputs inputs = tests::step_inputs(
      tests::llama_plan, "h100", {"batch.sequence_length=" + std::to_string(sequence), "cluster.topology=h100-dgx"});
  std::vector<model::Parameter> parameters = inputs.profile.parameters();
  parameters.push_back(constant("host.launch", launch, "us"));
  parameters.push_back(constant("overlap.collective_slowdown", 1, "1"));
  inputs.profile = {"h100", "", parameters, inputs.profile.devices(), "base"};
  return inputs;
}

double step_of(const sim::Inputs& inputs) {
  sim::PredictorPool predictors;
  return predictors.with(inputs, [&](sim::Predictor& p) { return p.closed_form(inputs.plan).value().step.time_s; });
}

// Steps that a host of 600 us a launch bounds, on a stack that states 400 us.
std::vector<MeasuredStep> rows() {
  std::vector<MeasuredStep> result;
  for (const int sequence : {256, 512, 1024})
    result.push_back(
        {"row" + std::to_string(sequence), "ours", inputs_with(400, sequence), step_of(inputs_with(600, sequence))});
  return result;
}

TEST(StackFits, FindTheHostTimeThatStepsShow) {
  const auto fit = fit_stack(rows());
  ASSERT_TRUE(fit) << to_string(fit.error());
  ASSERT_EQ(fit->factors.size(), 1u);  // nothing depends on the other constant
  EXPECT_EQ(fit->factors[0].name, "host time");
  EXPECT_NEAR(fit->factors[0].factor, 1.5, 0.03);
  EXPECT_LT(fit->factors[0].uncertainty, 0.1);
  ASSERT_EQ(fit->factors[0].constants.size(), 1u);
  EXPECT_NEAR(fit->factors[0].constants[0].value, 600, 12);
  for (const StackFit::Row& row : fit->rows) {
    EXPECT_LT(row.before, -0.2) << row.id;
    EXPECT_NEAR(row.after, 0, 0.02) << row.id;
    EXPECT_NEAR(row.left_out, 0, 0.03) << row.id;
  }
}

TEST(StackFits, AreWrittenAsAStackThatNamesItsRows) {
  const std::string text = stack_text("mine", "base", fit_stack(rows()).value(), "steps.csv");
  EXPECT_NE(text.find("extends = \"base\""), std::string::npos);
  EXPECT_NE(text.find("kind = \"fitted\""), std::string::npos);
  EXPECT_NE(text.find("rows = [\"ours\"]"), std::string::npos);
}

TEST(StackFits, RefuseWhatDeterminesNothing) {
  std::vector<MeasuredStep> few = rows();
  few.pop_back();
  tests::expect_error(fit_stack(few).error(), model::ErrorKind::input, "", 0, "STEPS", "2 rows determine no stack");
  std::vector<MeasuredStep> plain = rows();
  for (MeasuredStep& row : plain) row.inputs.profile = tests::step_inputs(tests::llama_plan, "h100").profile;
  EXPECT_EQ(fit_stack(plain).error().key, "--extends");
  std::vector<MeasuredStep> mixed = rows();
  mixed[1].inputs.profile = tests::step_inputs(tests::llama_plan, "h800").profile;
  EXPECT_EQ(fit_stack(mixed).error().key, "STEPS");
}

}  // namespace
}  // namespace plumbline::calibrate
