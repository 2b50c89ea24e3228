#include "sim/predict/stage_balance.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "model/plan/layout.h"
#include "sim/predict/predictor.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {
namespace {

using Counts = std::vector<std::int64_t>;

sim::Inputs balanced(std::vector<std::string> overrides, const std::string& plan = llama_plan) {
  overrides.insert(overrides.begin(), "schedule.layers_per_stage=balanced");
  return step_inputs(plan, "h800", overrides);
}

const Counts& counts_of(const sim::Inputs& inputs) { return inputs.plan.schedule.layers_per_stage.counts; }

// The head of Llama 3 8B has 2 * 128256 * 4096 FLOPs a token, as many as 2.1 of its layers with their attention, and
// takes a little less than 2 of them, since its GEMM is the largest: 7 layers with it are as long as 9, not 8.
TEST(StageBalance, TheStageOfTheHeadHasFewerLayers) {
  const sim::Inputs inputs = balanced({"parallelism.pipeline=4"});
  const model::SplitCosts costs = sim::split_costs(inputs.plan, inputs).value();
  EXPECT_GT(costs.last / costs.layers.front(), 1);
  EXPECT_LT(costs.last / costs.layers.front(), 2.1);
  EXPECT_EQ(counts_of(inputs), (Counts{8, 8, 9, 7}));
  EXPECT_TRUE(inputs.plan.schedule.layers_per_stage.found);
}

TEST(StageBalance, EveryLayerLiesOnAStage) {
  for (const char* kind : {"1f1b", "dualpipev", "zb-v"})
    for (const char* pipeline : {"2", "4", "8"}) {
      const sim::Inputs inputs =
          balanced({std::string("parallelism.pipeline=") + pipeline, std::string("schedule.kind=") + kind});
      const Counts& counts = counts_of(inputs);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), 32) << kind << " " << pipeline;
    }
}

// Layers that run twice forward cost 4 / 3, so that the head counts as fewer of them.
TEST(StageBalance, RecomputedLayersWeighMore) {
  const auto head_in_layers = [](const std::vector<std::string>& overrides) {
    const sim::Inputs inputs = balanced(overrides);
    const model::SplitCosts costs = sim::split_costs(inputs.plan, inputs).value();
    EXPECT_EQ(costs.layers.size(), 32u);
    return costs.last / costs.layers.front();
  };
  const double without = head_in_layers({});
  EXPECT_NEAR(head_in_layers({"recompute.policy=full"}), without * 3 / 4, 0.03 * without);
}

// What the blocks cost one by one adds up to the chunks that the prediction times, to a fiftieth.
TEST(StageBalance, CostsAddUpToTheChunksOfTheStep) {
  const sim::Inputs inputs = balanced({"parallelism.pipeline=4", "parallelism.zero_stage=0"});
  const model::SplitCosts costs = sim::split_costs(inputs.plan, inputs).value();
  const auto estimate = sim::Predictor(inputs).closed_form(inputs.plan).value();
  const auto middle = static_cast<std::size_t>(counts_of(inputs)[0]);
  double stage = 0;
  for (std::int64_t i = 0; i < counts_of(inputs)[2]; ++i) stage += costs.layers[middle + static_cast<std::size_t>(i)];
  const double chunks = *estimate.step.chunk_s[0] + *estimate.step.chunk_s[1];
  EXPECT_NEAR(stage, chunks, chunks / 50);
}

TEST(StageBalance, BalancedStagesAreNoSlowerThanEvenOnes) {
  for (const char* pipeline : {"2", "4", "8"}) {
    const std::string degree = std::string("parallelism.pipeline=") + pipeline;
    const sim::Inputs found = balanced({degree});
    const sim::Inputs even = step_inputs(llama_plan, "h800", {degree, "schedule.layers_per_stage=even"});
    EXPECT_LE(sim::Predictor(found).closed_form(found.plan)->step.time_s,
              sim::Predictor(even).closed_form(even.plan)->step.time_s)
        << pipeline;
  }
}

// DeepSeek-V3's own split is of 16 stages.
TEST(StageBalance, NumbersThatAnOverrideOutgrowsAreReplaced) {
  const sim::Inputs own = step_inputs(deepseek_plan, "h800");
  EXPECT_EQ(counts_of(own).size(), 16u);
  EXPECT_FALSE(own.plan.schedule.layers_per_stage.found);
  const sim::Inputs fewer = step_inputs(deepseek_plan, "h800", {"parallelism.pipeline=8"});
  EXPECT_EQ(counts_of(fewer).size(), 8u);
  const auto layout = model::make_layout(fewer.plan, fewer.architecture).value();
  const auto warnings = model::layout_warnings(fewer.plan, layout);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].find(
                "schedule.layers_per_stage has the 16 stages of another schedule: the 8 of this one are balanced"),
            0u);
}

// DualPipe's ranks hold two stages each, so that its numbers, which fit 1F1B as well, suit it badly.
TEST(StageBalance, NumbersOfAnotherScheduleAreReplaced) {
  const sim::Inputs own = step_inputs(deepseek_plan, "h800", {"schedule.kind=dualpipe"});
  EXPECT_EQ(counts_of(own), counts_of(step_inputs(deepseek_plan, "h800")));
  const sim::Inputs other = step_inputs(deepseek_plan, "h800", {"schedule.kind=1f1b"});
  EXPECT_TRUE(other.plan.schedule.layers_per_stage.found);
  const std::vector<std::string> kept = {"schedule.kind=1f1b",
                                         "schedule.layers_per_stage=[3,4,4,4,4,4,4,4,4,4,4,4,4,4,4,2]"};
  const sim::Inputs same = step_inputs(deepseek_plan, "h800", kept);
  EXPECT_EQ(counts_of(same), counts_of(own));
  EXPECT_LT(sim::Predictor(other).closed_form(other.plan)->step.time_s,
            0.9 * sim::Predictor(same).closed_form(same.plan)->step.time_s);
}

TEST(StageBalance, NumbersThatDoNotFitTheirOwnPlanAreRefused) {
  const sim::Inputs inputs =
      step_inputs(deepseek_plan, "h800", {"parallelism.pipeline=8", "schedule.layers_per_stage=[30, 31]"});
  const auto layout = model::make_layout(inputs.plan, inputs.architecture);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().key, "schedule.layers_per_stage");
}

TEST(StageBalance, OneStageAndEvenStagesHaveNoNumbers) {
  EXPECT_TRUE(counts_of(balanced({"parallelism.pipeline=1"})).empty());
  EXPECT_TRUE(counts_of(step_inputs(llama_plan, "h800", {"schedule.layers_per_stage=even"})).empty());
}

}  // namespace
}  // namespace plumbline::tests
