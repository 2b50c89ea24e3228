#include "sim/goodput/campaign_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "sim/campaign/predicted_run.h"
#include "tests/support/campaign_inputs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

// 64 GPUs, 64 sequences of 4,096 tokens a step.
Inputs failing_inputs(const std::vector<std::string>& overrides, double between_s = tests::day_s) {
  std::vector<std::string> changes = overrides;
  changes.insert(changes.begin(), {"batch.global_batch_size=64", "batch.sequence_length=4096", "run.tokens=2e10",
                                   "run.price_usd_per_gpu_hour=2"});
  Inputs inputs = tests::step_inputs(tests::llama_plan, "h800", changes);
  inputs.campaign = std::make_shared<const CampaignInput>([&] {
    CampaignInput campaign = tests::campaign_of(1, between_s);
    campaign.phases.clear();
    campaign.gpus = inputs.plan.cluster.gpus;
    campaign.checkpoint = {.interval_s = 0, .stall_s = 30, .write_s = 30, .load_s = 30};
    campaign.restart_s = 600;
    return campaign;
  }());
  return inputs;
}

// A step takes 64 s over the GPUs, and as many times longer as the batch is larger.
model::Result<model::StepResult> step_on_gpus(const Inputs& inputs) {
  model::StepResult result;
  const double tokens = static_cast<double>(inputs.plan.batch.global_batch_size * inputs.plan.batch.sequence_length);
  result.step.time_s = tokens / (64 * 4096) * 64 / static_cast<double>(inputs.plan.cluster.gpus) * 10;
  return result;
}

model::Result<CampaignAnswer> answer_of(const Inputs& inputs, const CampaignOptions& options) {
  const auto on_gpus = [&](std::int64_t gpus) -> model::Result<Inputs> {
    Inputs scaled = inputs;
    scaled.plan.cluster.gpus = gpus;
    CampaignInput campaign = *inputs.campaign;
    campaign.gpus = gpus;
    scaled.campaign = std::make_shared<const CampaignInput>(campaign);
    return scaled;
  };
  return campaign_answer(inputs, *step_on_gpus(inputs), options, step_on_gpus, on_gpus);
}

TEST(CampaignAnswer, AddsWhatFailuresCost) {
  const Inputs inputs = failing_inputs({});
  const CampaignAnswer answer = answer_of(inputs, {.seeds = 50, .spares = {0, 1}}).value();
  const double ideal_days = 2e10 / (64 * 4096) * 10 / tests::day_s;
  EXPECT_GT(answer.days.p10, ideal_days);
  EXPECT_EQ(answer.days, answer.result.days);  // no interval of the step was given
  ASSERT_TRUE(answer.run);
  EXPECT_DOUBLE_EQ(answer.run->days, ideal_days / answer.result.mean_goodput);
  EXPECT_DOUBLE_EQ(*answer.run->cost_usd, answer.run->days * 24 * 64 * 2);
  ASSERT_EQ(answer.intervals.size(), 5u);
  for (const CampaignPoint& point : answer.intervals) EXPECT_LE(point.goodput, answer.intervals[1].goodput * 1.005);
  EXPECT_EQ(answer.spares.size(), 2u);
  EXPECT_FALSE(answer.finish);
}

TEST(CampaignAnswer, TheClosedFormOfTheStepAgreesWithTheCampaign) {
  Inputs inputs = failing_inputs({"run.goodput=campaign"});
  const CampaignAnswer answer = answer_of(inputs, {.seeds = 200}).value();
  const model::RunCost run = predicted_run(inputs, inputs.plan, step_on_gpus(inputs)->step).value();
  EXPECT_NEAR(run.goodput, answer.result.mean_goodput, 0.005);
  EXPECT_DOUBLE_EQ(run.days, 2e10 / (64 * 4096) * 10 / tests::day_s / run.goodput);
}

TEST(CampaignAnswer, TheIntervalOfTheStepWidensTheDays) {
  const Inputs inputs = failing_inputs({});
  model::StepResult step = *step_on_gpus(inputs);
  step.interval.emplace().time_s = {9, 11, 14};
  const CampaignAnswer answer = campaign_answer(inputs, step, {.seeds = 50}, step_on_gpus, nullptr).value();
  EXPECT_NEAR(answer.days.p50 / answer.result.days.p50, 1.1, 0.01);
  EXPECT_NEAR(answer.days.p10 / answer.result.days.p50, 0.9, 0.01);
  EXPECT_NEAR(answer.days.p90 / answer.result.days.p50, 1.4, 0.02);
}

TEST(CampaignAnswer, PredictsEachPhase) {
  const Inputs inputs =
      failing_inputs({R"(campaign.phase=[{name="ramp", share=0.25, global_batch_size=32}, {name="rest"}])"});
  const CampaignAnswer answer = answer_of(inputs, {.seeds = 10}).value();
  ASSERT_EQ(answer.input.phases.size(), 2u);
  EXPECT_DOUBLE_EQ(answer.input.phases[0].tokens, 5e9);
  EXPECT_DOUBLE_EQ(answer.input.phases[0].step_s, 5);
  EXPECT_DOUBLE_EQ(answer.input.phases[1].tokens, 1.5e10);
  EXPECT_DOUBLE_EQ(answer.input.phases[1].step_s, 10);
  EXPECT_DOUBLE_EQ(answer.run->steps, 5e9 / (32 * 4096) + 1.5e10 / (64 * 4096));
}

TEST(CampaignAnswer, RefusesPhasesThatDoNotAddUp) {
  const auto message = [](const std::string& phases) {
    const auto answer = answer_of(failing_inputs({"campaign.phase=" + phases}), {.seeds = 1});
    return answer ? "" : model::to_string(answer.error());
  };
  EXPECT_THAT(message(R"([{name="a", tokens=3e10}])"), testing::HasSubstr("run.tokens"));
  EXPECT_THAT(message(R"([{name="a"}, {name="b"}])"), testing::HasSubstr("two phases"));
  Inputs without = failing_inputs({});
  without.plan.run.tokens.reset();
  EXPECT_THAT(model::to_string(answer_of(without, {.seeds = 1}).error()), testing::HasSubstr("tokens"));
}

TEST(CampaignAnswer, FindsTheFewestGpusInTime) {
  const Inputs inputs = failing_inputs({}, 2 * tests::day_s);
  // 64 GPUs need 8.83 days without failures, 32 twice as long.
  const CampaignAnswer answer = answer_of(inputs, {.seeds = 20, .finish_days = 10}).value();
  ASSERT_TRUE(answer.finish);
  EXPECT_EQ(answer.finish->gpus, 64);
  for (const CampaignOnGpus& tried : answer.finish->tried) EXPECT_EQ(tried.in_time >= 0.9, tried.gpus >= 64);
  const CampaignAnswer never = answer_of(inputs, {.seeds = 5, .finish_days = 0.01}).value();
  EXPECT_FALSE(never.finish->gpus);
  EXPECT_GT(never.finish->most, 0);
}

TEST(CampaignAnswer, SaysWhyItNeverFinishes) {
  const Inputs inputs = failing_inputs({}, 60);  // a restart takes ten minutes
  const CampaignAnswer answer = answer_of(inputs, {.seeds = 2}).value();
  EXPECT_EQ(answer.result.finished, 0);
  EXPECT_FALSE(answer.result.never.empty());
  EXPECT_FALSE(answer.run);
  EXPECT_TRUE(answer.intervals.empty());
}

}  // namespace
}  // namespace plumbline::sim
