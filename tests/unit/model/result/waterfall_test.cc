#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/result/comparison.h"

namespace plumbline::model {
namespace {

StepTimes step_of(double gemm, double casts, double exposed, double bubble) {
  StepTimes times;
  times.breakdown = {{"GEMM", gemm},    {"other memory-bound", 1},          {"casts and transposes", casts},
                     {"router", 0.25},  {"exposed communication", exposed}, {"bubble", bubble},
                     {"optimizer", 0.5}};
  for (const auto& part : times.breakdown) times.time_s += part.seconds;
  times.optimizer_s = 0.5;
  times.bubble_s = bubble;
  return times;
}

double change(const Waterfall& waterfall, std::string_view name) {
  const auto row = std::ranges::find(waterfall.rows, name, &WaterfallRow::name);
  return row == waterfall.rows.end() ? std::numeric_limits<double>::quiet_NaN() : row->change_s();
}

void expect_adds_up(const Waterfall& waterfall) {
  double from = 0, to = 0;
  for (const WaterfallRow& row : waterfall.rows) from += row.from_s, to += row.to_s;
  EXPECT_NEAR(from, waterfall.from_s, 1e-9);
  EXPECT_NEAR(to, waterfall.to_s, 1e-9);
}

std::vector<std::string> names(const Waterfall& waterfall) {
  std::vector<std::string> found;
  for (const WaterfallRow& row : waterfall.rows) found.push_back(row.name);
  return found;
}

TEST(Waterfall, RowsAddUpToTheDifference) {
  const Waterfall found = waterfall(step_of(10, 1, 0.5, 2), step_of(9, 1.5, 1.25, 4));
  expect_adds_up(found);
  EXPECT_EQ(names(found), (std::vector<std::string>{"GEMM", "memory-bound", "router", "exposed communication", "bubble",
                                                    "optimizer"}));
  EXPECT_DOUBLE_EQ(change(found, "GEMM"), -1);
  EXPECT_DOUBLE_EQ(change(found, "memory-bound"), 0.5);
  EXPECT_DOUBLE_EQ(change(found, "exposed communication"), 0.75);
  EXPECT_DOUBLE_EQ(change(found, "bubble"), 2);
  EXPECT_DOUBLE_EQ(found.change_s(), 2.25);
}

TEST(Waterfall, ClassesStandAlone) {
  const Waterfall found = waterfall(step_of(10, 1, 0.5, 2), step_of(10, 1.5, 0.5, 2), WaterfallDetail::classes);
  expect_adds_up(found);
  EXPECT_DOUBLE_EQ(change(found, "casts and transposes"), 0.5);
  EXPECT_DOUBLE_EQ(change(found, "other memory-bound"), 0);
}

StepTimes with_messages(StepTimes times, double seconds) {
  times.breakdown.push_back({"point-to-point", seconds});
  times.time_s += seconds;
  return times;
}

TEST(Waterfall, BubbleAndMessagesAreTheBubbleWhereOneStepDoesNotSeparateThem) {
  StepTimes from = step_of(10, 1, 0.5, 2);
  const StepTimes to = with_messages(step_of(10, 1, 0.5, 3), 0.25);
  const Waterfall measured = waterfall(to, from);
  expect_adds_up(measured);
  EXPECT_DOUBLE_EQ(change(measured, "bubble"), -1.25);
  EXPECT_TRUE(std::isnan(change(measured, "point-to-point")));
  std::ranges::find(from.breakdown, "bubble", &StepTimes::ClassTime::name)->name = "bubble and messages";
  EXPECT_DOUBLE_EQ(change(waterfall(from, to), "bubble"), 1.25);
}

TEST(Waterfall, BubbleAndMessagesAreTwoRowsWhereBothSeparateThem) {
  const Waterfall found =
      waterfall(with_messages(step_of(10, 1, 0.5, 2), 0.5), with_messages(step_of(10, 1, 0.5, 3), 0.25));
  expect_adds_up(found);
  EXPECT_DOUBLE_EQ(change(found, "bubble"), 1);
  EXPECT_DOUBLE_EQ(change(found, "point-to-point"), -0.25);
}

// Waits for parameters are part of the exposed time in the slots, waits for reductions part of the time after the last
// slot.
TEST(Waterfall, ExposedGathersAndReductionsAreRowsOfTheirOwn) {
  StepTimes from = step_of(10, 1, 0.5, 2), to = step_of(10, 1, 1.5, 2);
  from.exposed_parameter_gather_s = from.exposed_gradient_reduce_s = 0;
  to.exposed_parameter_gather_s = 0.75;
  to.exposed_gradient_reduce_s = 0.25;
  const Waterfall found = waterfall(from, to);
  expect_adds_up(found);
  EXPECT_DOUBLE_EQ(change(found, "exposed communication"), 0.25);
  EXPECT_DOUBLE_EQ(change(found, "exposed parameter gather"), 0.75);
  EXPECT_DOUBLE_EQ(change(found, "exposed gradient reduction"), 0.25);
  EXPECT_DOUBLE_EQ(change(found, "optimizer"), -0.25);
}

TEST(Waterfall, GathersThatOneStepDoesNotSeparateStayInTheirRow) {
  StepTimes measured = step_of(10, 1, 0.5, 2), predicted = step_of(10, 1, 1.5, 2);
  predicted.exposed_parameter_gather_s = 0.75;
  const Waterfall found = waterfall(predicted, measured);
  expect_adds_up(found);
  EXPECT_DOUBLE_EQ(change(found, "exposed communication"), -1);
  EXPECT_TRUE(std::isnan(change(found, "exposed parameter gather")));
}

TEST(Waterfall, WithoutABreakdownSlotsAreOneRow) {
  StepTimes closed;
  closed.slots_s = {6, 5, 1, std::nullopt, std::nullopt};
  closed.bubble_s = 2.5;  // exposed input included
  closed.exposed_input_s = 0.5;
  closed.optimizer_s = 1;
  closed.exposed_parameter_gather_s = 0.25;
  closed.time_s = 15.5;
  StepTimes open = step_of(10, 1, 0.5, 2);
  open.exposed_parameter_gather_s = 0;
  const Waterfall found = waterfall(open, closed);
  EXPECT_EQ(names(found), (std::vector<std::string>{"slots", "exposed parameter gather", "bubble", "exposed input",
                                                    "optimizer", "not attributed"}));
  EXPECT_DOUBLE_EQ(change(found, "bubble"), 0);
  expect_adds_up(found);
}

TEST(Waterfall, AStepWithNothingButItsTimeIsNotAttributed) {
  StepTimes measured;
  measured.time_s = 16;
  const Waterfall found = waterfall(step_of(10, 1, 0.5, 2), measured);
  expect_adds_up(found);
  EXPECT_DOUBLE_EQ(std::ranges::find(found.rows, "not attributed", &WaterfallRow::name)->to_s, 16);
}

TEST(Waterfall, ReasonsNameTheLargestAndWhatOffsetsIt) {
  EXPECT_EQ(main_reasons(waterfall(step_of(10, 1, 0.5, 2), step_of(9.9, 1, 0.82, 2.81))),
            "bubble +0.81 s, exposed communication +0.32 s (GEMM -0.10 s)");
  EXPECT_EQ(main_reasons(waterfall(step_of(10, 1, 0.5, 2), step_of(10, 1, 0.5, 1.99))), "bubble -10.0 ms");
  EXPECT_EQ(main_reasons(waterfall(step_of(10, 1, 0.5, 2), step_of(10, 1, 0.5, 2))), "");
}

}  // namespace
}  // namespace plumbline::model
