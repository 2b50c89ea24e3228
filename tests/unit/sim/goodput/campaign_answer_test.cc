#include "sim/goodput/campaign_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "sim/campaign/closed_form.h"
#include "sim/search/plan_answer.h"
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

model::Result<CampaignAnswer> answer_of(const Inputs& inputs, const CampaignOptions& options,
                                        const PredictStep& predict = step_on_gpus,
                                        std::optional<double> own_fit = std::nullopt) {
  const auto on_gpus = [&](std::int64_t gpus) -> model::Result<Inputs> {
    Inputs scaled = inputs;
    scaled.plan.cluster.gpus = gpus;
    CampaignInput campaign = *inputs.campaign;
    campaign.gpus = gpus;
    scaled.campaign = std::make_shared<const CampaignInput>(campaign);
    return scaled;
  };
  model::StepResult own = *step_on_gpus(inputs);
  own.memory.fits_probability = own_fit;
  return campaign_answer(inputs, own, options, predict, on_gpus);
}

TEST(CampaignAnswer, AddsWhatFailuresCost) {
  const Inputs inputs = failing_inputs({});
  const CampaignAnswer answer = answer_of(inputs, {.seeds = 50, .spares = {0, 1}}).value();
  const double ideal_days = 2e10 / (64 * 4096) * 10 / tests::day_s;
  EXPECT_GT(answer.days.p10, ideal_days);
  EXPECT_EQ(answer.days, answer.result.days);  // no interval of the step was given
  ASSERT_TRUE(answer.run);
  EXPECT_NEAR(answer.run->days, answer.days.p50, 1e-9);
  EXPECT_NEAR(answer.run->goodput, ideal_days / answer.days.p50, 1e-9);
  EXPECT_EQ(*answer.run->cost_usd, answer.usd()->p50);
  EXPECT_NEAR(*answer.run->cost_usd, answer.days.p50 * 24 * 64 * 2, 1e-6);
  ASSERT_EQ(answer.intervals.size(), 5u);
  for (const CampaignPoint& point : answer.intervals) EXPECT_LE(point.goodput, answer.intervals[1].goodput * 1.005);
  EXPECT_EQ(answer.spares.size(), 2u);
  EXPECT_FALSE(answer.finish);
}

TEST(CampaignAnswer, ThatIsStoppedHasWhatWasRun) {
  const Inputs inputs = failing_inputs({});
  std::size_t campaigns = 0;  // that have been run of 13: its own, five intervals, a spare, six sizes
  const Watch watch{[&] { return campaigns >= 1; },
                    [&](std::size_t done, std::size_t total) { campaigns = done * 13 / total; }};
  const CampaignAnswer answer =
      answer_of(inputs, {.seeds = 50, .spares = {0}, .finish_days = 1000, .watch = watch}).value();
  EXPECT_FALSE(answer.complete);
  EXPECT_EQ(answer.input.seeds, 50);
  EXPECT_TRUE(answer.run);
  EXPECT_TRUE(answer.spares.empty());
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
  EXPECT_EQ(answer.input.phases.front().step_s, 11);  // the campaigns have the step of its middle
  EXPECT_NEAR(answer.days.p50 / answer.result.days.p50, 1, 0.01);
  EXPECT_NEAR(answer.days.p10 / answer.result.days.p50, 9.0 / 11, 0.01);
  EXPECT_NEAR(answer.days.p90 / answer.result.days.p50, 14.0 / 11, 0.02);
  EXPECT_EQ(answer.run->days, answer.days.p50);
  // Eight of ten trainings lie between the quantiles of days, and a day of 64 GPUs costs 24 * 64 * 2 USD.
  EXPECT_NEAR(answer.share_within(answer.days.p10), 0.1, 1e-9);
  EXPECT_NEAR(answer.share_within(answer.days.p90), 0.9, 1e-9);
  EXPECT_DOUBLE_EQ(answer.usd()->p90, answer.days.p90 * 24 * 64 * 2);
  EXPECT_NEAR(answer.share_within_usd(answer.usd()->p10), 0.1, 1e-9);
  EXPECT_NEAR(*probability_within(answer, {.days = answer.days.p90}), 0.9, 1e-9);
  EXPECT_NEAR(*probability_within(answer, {.days = answer.days.p90, .usd = answer.usd()->p10}), 0.1, 1e-9);
}

// Returns the option of a search, with a deadline, whose first plan has these inputs.
ClusterOption searched(const Inputs& inputs, double deadline) {
  PlanAnswer answer;
  answer.limits.days = deadline;
  ClusterOption& option = answer.options.emplace_back();
  option.inputs = inputs;
  option.plans.push_back({inputs.plan, *step_on_gpus(inputs), {}, 0});
  option.plans.front().result.run.emplace();
  rank(answer);
  const auto add_campaign = [&](Inputs& made) -> model::Result<std::string> {
    CampaignInput campaign = *inputs.campaign;
    campaign.gpus = made.plan.cluster.gpus;
    made.campaign = std::make_shared<const CampaignInput>(campaign);
    return "rates";
  };
  const auto load = [&](const model::Plan& plan) -> model::Result<Inputs> {
    Inputs loaded = inputs;
    loaded.plan = plan;
    return loaded;
  };
  EXPECT_TRUE(find_campaigns(answer, add_campaign, load, step_on_gpus, local_tasks()));
  return answer.options.front();
}

TEST(CampaignAnswer, IsThatOfASearchedPlan) {
  const Inputs inputs = failing_inputs({}, 20 * tests::day_s);
  const CampaignAnswer alone = answer_of(inputs, {}).value();
  const double middle = alone.days.p50;
  const ClusterOption option = searched(inputs, middle);
  ASSERT_TRUE(option.campaign);
  EXPECT_EQ(option.campaign->days, alone.days);
  const auto own = std::ranges::find(option.campaign->finish->tried, 64, &CampaignOnGpus::gpus);
  EXPECT_EQ(own->in_time, probability_within(alone, {.days = middle}));
  EXPECT_GT(own->in_time, 0);
  EXPECT_LT(own->in_time, 1);
  EXPECT_EQ(option.rates, "rates");
  EXPECT_TRUE(option.campaign->intervals.empty());
  EXPECT_EQ(alone.intervals.size(), 5u);
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

// Returns the answer to a deadline where steps on the given numbers of GPUs cannot be predicted. The plan has 64 GPUs,
// 2 to 128 divide its batch, and n need 8.83 days * 64 / n without failures.
FinishBy finish_by(double days, const std::vector<std::int64_t>& refused, const std::vector<std::string>& keys = {},
                   const PredictStep& step_of = step_on_gpus) {
  const auto predict = [&](const Inputs& inputs) -> model::Result<model::StepResult> {
    if (std::ranges::count(refused, inputs.plan.cluster.gpus) > 0) return model::infeasible("", "too many links", "");
    return step_of(inputs);
  };
  return *answer_of(failing_inputs(keys, 20 * tests::day_s), {.seeds = 20, .finish_days = days}, predict)->finish;
}

std::vector<std::int64_t> gpus_of(const FinishBy& finish, bool refused) {
  std::vector<std::int64_t> gpus;
  for (const CampaignOnGpus& tried : finish.tried)
    if (tried.refused == refused) gpus.push_back(tried.gpus);
  return gpus;
}

TEST(CampaignAnswer, FindsTheFewestGpusInTime) {
  for (const auto& [days, fewest] : {std::pair(40, 16), {20, 32}, {10, 64}, {5, 128}}) {
    const FinishBy finish = finish_by(days, {});
    EXPECT_EQ(finish.gpus, fewest);
    for (const CampaignOnGpus& tried : finish.tried) EXPECT_EQ(tried.in_time >= 0.9, tried.gpus >= fewest);
  }
  const FinishBy never = finish_by(1, {});
  EXPECT_FALSE(never.gpus);
  EXPECT_EQ(gpus_of(never, false), (std::vector<std::int64_t>{64, 128}));
}

// 16 would end in time. Of a plan that is at the edge itself they would be the answer.
TEST(CampaignAnswer, FewerGpusFitAsSurelyAsThePlan) {
  const auto step_of = [](const Inputs& inputs) {
    auto step = step_on_gpus(inputs);
    step->memory.fits_probability = inputs.plan.cluster.gpus < 32 ? 0.909 : 0.97;
    return step;
  };
  const FinishBy finish = finish_by(40, {}, {}, step_of);
  EXPECT_EQ(finish.gpus, 32);
  const auto at_edge = std::ranges::find(finish.tried, 16, &CampaignOnGpus::gpus);
  ASSERT_NE(at_edge, finish.tried.end());
  EXPECT_EQ(at_edge->reason, "at the edge: fits with 90 %");
  EXPECT_FALSE(at_edge->refused);

  const Inputs inputs = failing_inputs({}, 20 * tests::day_s);
  EXPECT_EQ(answer_of(inputs, {.seeds = 20, .finish_days = 40}, step_of, 0.9)->finish->gpus, 16);
}

TEST(CampaignAnswer, WhatCannotBePredictedIsNotLookedAt) {
  // 8 would be looked at first: between 4, which are late, and 16 it may be the answer, below 16 that are late not.
  const FinishBy between = finish_by(40, {8});
  EXPECT_EQ(between.gpus, 16);
  EXPECT_EQ(gpus_of(between, true), std::vector<std::int64_t>{8});
  EXPECT_EQ(between.tried[1].reason, "too many links");
  EXPECT_TRUE(gpus_of(finish_by(20, {8}), true).empty());
  // The plan itself ends in time, whatever else can be predicted.
  const FinishBy alone = finish_by(10, {2, 4, 8, 16, 32, 128});
  EXPECT_EQ(alone.gpus, 64);
  EXPECT_EQ(gpus_of(alone, true), (std::vector<std::int64_t>{2, 4, 8, 16, 32}));
  // A phase of 32 sequences cannot be divided over 128 GPUs, of which two hold a replica.
  const FinishBy phases =
      finish_by(5, {}, {R"(campaign.phase=[{name="a", share=0.1, global_batch_size=32}, {name="b"}])"});
  EXPECT_FALSE(phases.gpus);
  EXPECT_EQ(gpus_of(phases, false), std::vector<std::int64_t>{64});
  EXPECT_EQ(gpus_of(phases, true), std::vector<std::int64_t>{128});
}

TEST(CampaignAnswer, GoesUpAsFarAsDaysFall) {
  // Of 512 sequences, which take 70.6 days on 64 GPUs, steps on more than 128 take twice as long as on 64.
  const auto step_of = [](const Inputs& inputs) {
    auto step = step_on_gpus(inputs);
    if (inputs.plan.cluster.gpus > 128) step->step.time_s = 160;
    return step;
  };
  const std::vector<std::string> keys = {"batch.global_batch_size=512"};
  EXPECT_EQ(gpus_of(finish_by(1, {}, keys, step_of), false), (std::vector<std::int64_t>{64, 128, 256, 512}));
  EXPECT_TRUE(gpus_of(finish_by(1, {512}, keys, step_of), true).empty());  // 256 are too many already
}

TEST(CampaignAnswer, SaysWhyItNeverFinishes) {
  const Inputs inputs = failing_inputs({}, 60);  // a restart takes ten minutes
  const CampaignAnswer answer = answer_of(inputs, {.seeds = 2}).value();
  EXPECT_EQ(answer.result.finished, 0);
  EXPECT_FALSE(answer.result.never.empty());
  EXPECT_FALSE(answer.run);
  EXPECT_FALSE(answer.usd());
  EXPECT_EQ(probability_within(answer, {.days = 1e6}), 0);
  EXPECT_TRUE(answer.intervals.empty());
}

}  // namespace
}  // namespace plumbline::sim
