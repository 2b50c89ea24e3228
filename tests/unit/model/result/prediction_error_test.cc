#include <gtest/gtest.h>

#include <vector>

#include "model/result/comparison.h"

namespace plumbline::model {
namespace {

constexpr auto F = static_cast<std::size_t>(OpType::F), FB = static_cast<std::size_t>(OpType::FB);

// Two forward slots, four pairs; all compute is GEMM.
StepTimes step(double forwards, double pairs, double bubble, double optimizer) {
  StepTimes times;
  times.slot_counts[F] = 2;
  times.slot_counts[FB] = 4;
  times.slots_s = {forwards, 0, 0, 0, pairs};
  times.bubble_s = bubble;
  times.optimizer_s = optimizer;
  times.time_s = forwards + pairs + bubble + optimizer;
  times.breakdown = {{"GEMM", forwards + pairs}, {"bubble", bubble}, {"optimizer", optimizer}};
  return times;
}

const StepTimes predicted = step(2, 9, 4, 1), measured = step(2.5, 8, 5, 0.5);  // 16 s, measured 16 s

double contributions(const PredictionError& error, const std::vector<ComparedTime>& rows) {
  double sum = 0;
  for (const ComparedTime& row : rows) sum += error.contribution(row);
  return sum;
}

TEST(PredictionError, OfEachSlotAndOfAllOfThem) {
  const PredictionError error = prediction_error(predicted, measured);
  ASSERT_EQ(error.slots.size(), 2U);
  EXPECT_EQ(error.slots[0].kind, OpType::F);
  EXPECT_EQ(error.slots[1].count, 4);
  EXPECT_DOUBLE_EQ(*error.slots[1].each.predicted_s, 2.25);
  EXPECT_DOUBLE_EQ(*error.slots[1].each.measured_s, 2);
  EXPECT_DOUBLE_EQ(*error.slots[1].each.error(), 0.125);
  EXPECT_DOUBLE_EQ(*error.slots[0].together.error(), -0.2);
}

TEST(PredictionError, PartsAndClassesAddUpToTheErrorOfTheStep) {
  StepTimes longer = step(2, 9, 6, 1);  // 18 s instead of 16: an eighth too long
  const PredictionError error = prediction_error(longer, measured);
  EXPECT_DOUBLE_EQ(*error.step.error(), 0.125);
  EXPECT_EQ(error.parts.size(), 4U);
  EXPECT_NEAR(contributions(error, error.parts), 0.125, 1e-12);
  EXPECT_NEAR(contributions(error, error.classes), 0.125, 1e-12);
  EXPECT_DOUBLE_EQ(error.contribution(error.parts[2]), 1.0 / 16);  // bubble 6 s, measured 5
}

// Both sides take 16 s: the errors of the parts cancel.
TEST(PredictionError, ErrorsOfPartsMayCancel) {
  const PredictionError error = prediction_error(predicted, measured);
  EXPECT_DOUBLE_EQ(*error.step.error(), 0);
  EXPECT_NEAR(contributions(error, error.parts), 0, 1e-12);
  EXPECT_DOUBLE_EQ(error.contribution(error.slots[1].together), 1.0 / 16);
}

TEST(PredictionError, OtherSlotsHaveNoTable) {
  StepTimes other = predicted;
  other.slot_counts[FB] = 5;
  EXPECT_TRUE(prediction_error(other, measured).slots.empty());
  EXPECT_TRUE(prediction_error(other, measured).parts.empty());
  EXPECT_FALSE(prediction_error(other, measured).classes.empty());
}

TEST(PredictionError, NothingMeasuredHasNoError) {
  StepTimes silent;
  silent.time_s = 16;
  const PredictionError error = prediction_error(predicted, silent);
  EXPECT_TRUE(error.slots.empty());
  EXPECT_FALSE((ComparedTime{"bubble", 1, 0}.error()));
  EXPECT_EQ(error.classes.back().name, "not attributed");
}

}  // namespace
}  // namespace plumbline::model
