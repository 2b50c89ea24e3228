#include <gtest/gtest.h>

#include "model/memory/memory.h"
#include "model/result/result.h"

namespace plumbline::model {
namespace {

StepResult drawn_result() {
  StepResult result;
  result.step.time_s = 2;
  result.step.tokens_per_s = 100;
  result.step.mfu = 0.5;
  result.step.bubble_s = 0.3;
  result.run = RunCost{.days = 10, .gpu_hours = 240, .cost_usd = 480, .total_gpu_hours = 300, .total_cost_usd = 600};
  result.run->phases = {{"pretraining", 240, "predicted", ""}, {"later", 60, "published", ""}};
  PredictionInterval& interval = result.interval.emplace();
  interval.time_s = {2, 2.5, 3};
  interval.days = Quantiles{10, 12.5, 15};
  interval.gpu_hours = Quantiles{240, 300, 360};
  interval.cost_usd = Quantiles{400, 620, 800};
  return result;
}

TEST(Middle, RatesOfTheStepAreThoseOfItsMiddle) {
  const StepTimes step = middle_step(drawn_result());
  EXPECT_EQ(step.time_s, 2.5);
  EXPECT_DOUBLE_EQ(step.tokens_per_s, 80);
  EXPECT_DOUBLE_EQ(step.mfu, 0.4);
  EXPECT_EQ(step.bubble_s, 0.3) << "parts stay those of the components";
}

TEST(Middle, StatedPhasesOfTheRunStay) {
  const RunCost run = *middle_run(drawn_result());
  EXPECT_EQ(run.days, 12.5);
  EXPECT_EQ(run.gpu_hours, 300);
  EXPECT_EQ(run.total_gpu_hours, 360);
  EXPECT_EQ(run.phases[0].gpu_hours, 300);
  EXPECT_EQ(run.phases[1].gpu_hours, 60);
  EXPECT_EQ(run.cost_usd, 620);
  EXPECT_EQ(run.total_cost_usd, 740);
}

TEST(Middle, WithoutAnIntervalItIsTheComponents) {
  StepResult result = drawn_result();
  result.interval.reset();
  EXPECT_EQ(middle_step(result).time_s, 2);
  EXPECT_EQ(middle_run(result)->days, 10);
}

TEST(Fit, IsTheProbabilityWhereOneWasDrawn) {
  Memory memory{.peak_bytes = 90, .capacity_bytes = 80, .fits = false};
  EXPECT_EQ(fit_of(memory), Fit::does_not_fit);
  memory.fits_probability = 0.3;
  EXPECT_EQ(fit_of(memory), Fit::at_the_edge);
  memory.fits_probability = surely_fits;
  EXPECT_EQ(fit_of(memory), Fit::fits);
  EXPECT_EQ(to_string(fit_of(memory)), "fits");
}

}  // namespace
}  // namespace plumbline::model
