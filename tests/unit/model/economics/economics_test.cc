#include "model/economics/economics.h"

#include <gtest/gtest.h>

#include "tests/support/inputs.h"
#include "tests/support/load_cluster.h"

namespace plumbline::model {
namespace {

ClusterShape deepseek_cluster() {
  return tests::load_cluster(tests::shipped("topologies/h800-rail-fat-tree.toml"), tests::shipped("topologies/devices"),
                             {.gpus = 2048})
      .value();
}

Plan deepseek_plan() { return load_plan(tests::shipped("examples/deepseek-v3-2048xh800.toml"), {}).value(); }

TEST(Economics, DeepSeekV3) {
  // The measured step of arXiv 2505.09343, table 4.
  const auto cost = run_cost(deepseek_plan(), 19.926, deepseek_cluster());
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->tokens, 14.8e12);
  // 14.8e12 / (15360 * 4096 = 62,914,560) = 235,239.66
  EXPECT_NEAR(cost->steps, 235239.66, 0.01);
  // 235,239.66 * 19.926 s = 4,687,385 s = 54.252 days
  EXPECT_NEAR(cost->days, 54.252, 0.001);
  // 4,687,385 s / 3600 * 2048 = 2.6666 M GPU-hours
  EXPECT_NEAR(cost->gpu_hours, 2.6666e6, 100);
  EXPECT_DOUBLE_EQ(cost->cost_usd.value(), 2 * cost->gpu_hours);
  EXPECT_EQ(cost->goodput, 1.0);
}

TEST(Economics, StatedPhasesAreAddedAsPublished) {
  const auto cost = run_cost(deepseek_plan(), 19.926, deepseek_cluster());
  ASSERT_TRUE(cost);
  ASSERT_EQ(cost->phases.size(), 3u);
  EXPECT_EQ(cost->phases[0].name, "pretraining");
  EXPECT_EQ(cost->phases[0].kind, "predicted");
  EXPECT_EQ(cost->phases[0].gpu_hours, cost->gpu_hours);
  EXPECT_EQ(cost->phases[1].name, "context_extension");
  EXPECT_EQ(cost->phases[1].kind, "published");
  EXPECT_EQ(cost->phases[1].gpu_hours, 119000);
  EXPECT_FALSE(cost->phases[1].source.empty());
  EXPECT_EQ(cost->phases[2].gpu_hours, 5000);
  EXPECT_DOUBLE_EQ(cost->total_gpu_hours, cost->gpu_hours + 124000);
  EXPECT_DOUBLE_EQ(cost->total_cost_usd.value(), 2 * cost->total_gpu_hours);
}

TEST(Economics, GoodputLengthensTheRunButNotStatedPhases) {
  Plan plan = deepseek_plan();
  const RunCost ideal = run_cost(plan, 10, deepseek_cluster()).value();
  EXPECT_EQ(ideal.goodput_source, "without failures");
  plan.run.goodput = 0.8;
  const RunCost stated =
      run_cost(plan, 10, deepseek_cluster(), std::nullopt, CampaignGoodput{0.5, "a campaign"}).value();
  EXPECT_EQ(stated.goodput, 0.8);
  EXPECT_DOUBLE_EQ(stated.days, ideal.days / 0.8);
  EXPECT_DOUBLE_EQ(stated.cost_usd.value(), *ideal.cost_usd / 0.8);
  EXPECT_DOUBLE_EQ(stated.total_gpu_hours, ideal.gpu_hours / 0.8 + 124000);
  EXPECT_EQ(stated.steps, ideal.steps);
  plan.run.goodput = "campaign";
  const RunCost predicted =
      run_cost(plan, 10, deepseek_cluster(), std::nullopt, CampaignGoodput{0.5, "a campaign"}).value();
  EXPECT_DOUBLE_EQ(predicted.gpu_hours, 2 * ideal.gpu_hours);
  EXPECT_EQ(predicted.goodput_source, "a campaign");
  EXPECT_EQ(run_cost(plan, 10, deepseek_cluster())->goodput, 1);
}

TEST(Economics, NoTokensNoRun) {
  Plan plan = deepseek_plan();
  plan.run.tokens.reset();
  EXPECT_FALSE(run_cost(plan, 19.926, deepseek_cluster()));
}

TEST(Economics, ScalesWithTheStepAndTheGpus) {
  Plan plan = deepseek_plan();
  const auto once = run_cost(plan, 10, deepseek_cluster());
  const auto slower = run_cost(plan, 20, deepseek_cluster());
  plan.cluster.gpus *= 2;
  const auto wider = run_cost(plan, 10, deepseek_cluster());
  EXPECT_DOUBLE_EQ(slower->gpu_hours, 2 * once->gpu_hours);
  EXPECT_DOUBLE_EQ(wider->gpu_hours, 2 * once->gpu_hours);
  EXPECT_DOUBLE_EQ(wider->days, once->days);
}

}  // namespace
}  // namespace plumbline::model
