#include "sim/search/campaign_risk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

namespace plumbline::sim {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// 1,000 steps of 864 s on 64 GPUs: 10 days without failures, for 100 USD.
struct Training {
  Inputs inputs;
  model::StepResult step;
  PlanCost cost;
};

Training training(CampaignInput campaign, std::vector<double> time_draws) {
  Training made;
  made.inputs.plan.batch.global_batch_size = 100;
  made.inputs.plan.batch.sequence_length = 10;
  made.step.step.time_s = 864;
  made.step.run = model::RunCost{};
  made.step.run->tokens = 1e6;
  campaign.gpus = 64;
  campaign.seeds = 50;
  made.inputs.campaign = std::make_shared<const CampaignInput>(campaign);
  made.cost.gpus = 64;
  made.cost.step_s = 864;
  made.cost.days = 10;
  made.cost.gpu_hours = 10 * 24 * 64;
  made.cost.usd = made.cost.usd_low = made.cost.usd_high = 100;
  made.cost.price_draws.assign(time_draws.size(), 1.5);
  made.cost.time_draws = std::move(time_draws);
  made.step.interval = model::PredictionInterval{};
  made.step.interval->days = model::Quantiles{9, 10, 11};
  made.step.interval->cost_usd = model::Quantiles{90, 100, 150};
  return made;
}

CampaignRisk risk_of(const Training& made) {
  return campaign_risk(made.inputs, made.step, made.cost, local_tasks()).value();
}

CampaignInput failing() {
  CampaignInput campaign;
  FailureMode mode{"faulty GPU", 1.0 / (24 * 64)};  // one a day
  mode.detect_s = 600;
  campaign.failures = {mode};
  campaign.checkpoint = {.interval_s = 3600, .stall_s = 60, .write_s = 60, .load_s = 60};
  campaign.restart_s = 600;
  return campaign;
}

TEST(CampaignRisk, IsThatOfTheStepWhereNothingFails) {
  const CampaignRisk risk = risk_of(training({}, {0.8, 1, 1, 1, 1.2}));
  EXPECT_NEAR(*risk.cost.days, 10, 1e-9);
  EXPECT_NEAR(*risk.cost.usd, 100, 1e-9);
  const auto expect = [](const std::optional<model::Quantiles>& found, double p10, double p50, double p90) {
    ASSERT_TRUE(found);
    EXPECT_NEAR(found->p10, p10, 1e-9);
    EXPECT_NEAR(found->p50, p50, 1e-9);
    EXPECT_NEAR(found->p90, p90, 1e-9);
  };
  expect(risk.days, 9, 10, 11);
  expect(risk.usd, 90, 100, 150);
  EXPECT_EQ(probability_within(risk.cost, {.days = 11}), 0.8);
}

TEST(CampaignRisk, EachDrawOfTheStepMeetsACampaignOfItsOwn) {
  const Training made = training(failing(), std::vector<double>(50, 1.1));
  const CampaignRisk risk = risk_of(made);
  ASSERT_EQ(risk.result.days_of_seed.size(), 50u);
  EXPECT_GT(risk.result.days.p10, 10);
  EXPECT_LT(risk.result.days.p10, risk.result.days.p90);
  EXPECT_NEAR(*risk.cost.days, 10 / risk.result.mean_goodput, 1e-9);
  EXPECT_NEAR(*risk.cost.usd, 100 / risk.result.mean_goodput, 1e-9);
  std::vector<double> days = risk.result.days_of_seed;
  for (double& one : days) one *= 1.1;
  // The same draws take 11 days without failures, in whose interval nine of ten cases end after 11.
  const model::Quantiles drawn = model::quantiles_of(days);
  EXPECT_NEAR(risk.days->p90, 11 * drawn.p90 / 11, 1e-9);
  EXPECT_NEAR(risk.days->p50, 10 * drawn.p50 / 11, 1e-9);
  EXPECT_NEAR(risk.usd->p50, 100 * drawn.p50 / 11, 1e-9);
  EXPECT_GT(risk.days->p10, 9);
  const double deadline = drawn.p50;
  const auto in_time = std::ranges::count_if(days, [&](double one) { return one <= deadline; });
  EXPECT_EQ(probability_within(risk.cost, {.days = deadline}), static_cast<double>(in_time) / 50);
}

TEST(CampaignRisk, WhatDoesNotFitIsLateAndHasNoDays) {
  const CampaignRisk risk = risk_of(training({}, {1, 1, 1, infinite}));
  EXPECT_NEAR(risk.days->p90, 11, 1e-9);
  EXPECT_EQ(probability_within(risk.cost, {.days = 11}), 0.75);
}

TEST(CampaignRisk, OfATrainingThatNeverEndsHasNoDays) {
  CampaignInput campaign = failing();
  campaign.restart_s = 30 * 86400;
  const CampaignRisk risk = risk_of(training(campaign, {1, 1}));
  EXPECT_EQ(risk.result.finished, 0);
  EXPECT_FALSE(risk.result.never.empty());
  EXPECT_FALSE(risk.days);
  EXPECT_FALSE(risk.cost.days);
  EXPECT_FALSE(probability_within(risk.cost, {.days = 11}));
}

}  // namespace
}  // namespace plumbline::sim
