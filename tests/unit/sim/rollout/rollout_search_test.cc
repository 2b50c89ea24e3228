#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "model/plan/rollout.h"
#include "model/result/result.h"
#include "sim/predict/simulate.h"
#include "sim/rollout/rollout.h"
#include "tests/support/rollout_inputs.h"

namespace plumbline::sim {
namespace {

// Degrees that are quickly searched, and a run.
const std::vector<std::string> searched = {
    "cluster.gpus=32",       "search.tensor=[1,2]",           "search.pipeline=[1]",         "search.context=[1]",
    "search.zero_stage=[3]", "search.micro_batch_size=[1,2]", "search.recompute=[\"full\"]", "rollout.steps=100"};

struct Asked {
  RolloutAnswer answer;
  model::Result<void> searched;
};

Asked divided_gpus(std::vector<std::string> overrides = {}, std::int64_t gpus = 32, const Watch& watch = {}) {
  Asked asked;
  ClusterOption option;
  overrides.insert(overrides.begin(), searched.begin(), searched.end());
  option.inputs = tests::rollout_inputs(overrides);
  const Inputs given = option.inputs;
  asked.answer.options.push_back(std::move(option));
  const auto load = [&given](const model::Plan& plan) -> model::Result<Inputs> {
    Inputs own = given;
    own.plan = plan;
    return tests::with_engines(std::move(own));
  };
  asked.searched = search_splits(asked.answer, 0, gpus, load, {}, watch);
  rank(asked.answer);
  return asked;
}

// The answer to the question as it is.
const Asked& asked_plainly() {
  static const Asked asked = divided_gpus();
  return asked;
}

// Three shares of four nodes, each with both placements, and all GPUs for both halves.
TEST(RolloutSearch, DividesWholeNodes) {
  const Asked& asked = asked_plainly();
  ASSERT_TRUE(asked.searched) << to_string(asked.searched.error());
  ASSERT_EQ(asked.answer.splits.size(), 7u);
  double before = 0;
  for (const RolloutSplit& split : asked.answer.splits) {
    ASSERT_TRUE(split.best) << split.placement << ' ' << split.engine_gpus << ": " << split.refusal;
    EXPECT_EQ(split.engine_gpus % 8, 0);
    EXPECT_EQ(split.best->plan.cluster.gpus, split.training_gpus);
    if (split.placement != "colocated") {
      EXPECT_EQ(split.training_gpus + split.engine_gpus, 32);
    }
    EXPECT_GE(split.best->cost.step_s, before);
    before = split.best->cost.step_s;
  }
}

// The step of a found plan is that of the plan by itself, and the batch is that of its data-parallel ranks.
TEST(RolloutSearch, FindsPlansThatArePredictedAlike) {
  const Asked& asked = asked_plainly();
  ASSERT_TRUE(asked.answer.found());
  for (const RolloutSplit& split : asked.answer.splits) {
    model::Plan plan = split.best->plan;
    EXPECT_EQ(static_cast<double>(plan.batch.global_batch_size), model::step_sequences(plan));
    ASSERT_TRUE(model::complete_rollout(plan)) << split.placement;
    Inputs own = asked.answer.options.front().inputs;
    own.plan = plan;
    own = tests::with_engines(std::move(own));
    const auto simulated = simulate_top_plans(own, {plan});
    ASSERT_TRUE(simulated.front());
    const auto rollout = predict_rollout(own, simulated.front()->result);
    ASSERT_TRUE(rollout) << to_string(rollout.error());
    EXPECT_NEAR(rollout->step_s, split.best->result.rollout->step_s, 1e-9 * rollout->step_s);
    EXPECT_EQ(split.best->cost.step_s, split.best->result.rollout->interval_s->p50) << "splits are in this order";
  }
}

// Halves that wait for each other take longer than halves at once on the same GPUs.
TEST(RolloutSearch, AtOnceIsFasterThanOneAfterTheOther) {
  const Asked& asked = asked_plainly();
  const auto step = [&](const std::string& placement, std::int64_t engine_gpus) {
    for (const RolloutSplit& split : asked.answer.splits)
      if (split.placement == placement && split.engine_gpus == engine_gpus) return split.best->cost.step_s;
    return 0.0;
  };
  for (const std::int64_t engine_gpus : {8, 16, 24})
    EXPECT_LT(step("asynchronous", engine_gpus), step("split", engine_gpus));
}

TEST(RolloutSearch, KeepsWhatIsSet) {
  const Asked asked = divided_gpus({"rollout.placement=asynchronous", "rollout.gpus=16", "rollout.tensor=4",
                                    "rollout.staleness=2", "cluster.gpus=16"});
  ASSERT_EQ(asked.answer.splits.size(), 1u);
  const RolloutSplit& split = asked.answer.splits.front();
  ASSERT_TRUE(split.best) << split.refusal;
  EXPECT_EQ(split.placement, "asynchronous");
  EXPECT_EQ(split.engine_gpus, 16);
  EXPECT_EQ(split.best->plan.rollout.tensor, 4);
  EXPECT_EQ(split.best->plan.rollout.staleness, 2);
}

TEST(RolloutSearch, PutsWhatExceedsALimitLast) {
  RolloutAnswer answer = asked_plainly().answer;
  const double dearest = *answer.splits.back().best->cost.usd, cheapest = *answer.splits.front().best->cost.usd;
  ASSERT_LT(cheapest, dearest);
  answer.objective = Objective::cost;
  answer.limits.usd = (cheapest + dearest) / 2;
  rank(answer);
  EXPECT_TRUE(within(answer.splits.front().best->cost, answer.limits));
  EXPECT_FALSE(within(answer.splits.back().best->cost, answer.limits));
}

TEST(RolloutSearch, StatesWhyASplitHasNoPlan) {
  const Asked asked = divided_gpus({"rollout.tensor=3"});
  ASSERT_TRUE(asked.searched);
  for (const RolloutSplit& split : asked.answer.splits) {
    EXPECT_FALSE(split.best);
    EXPECT_FALSE(split.refusal.empty());
  }
  EXPECT_FALSE(asked.answer.found());
}

TEST(RolloutSearch, StatesThatNoGpuTrains) {
  const Asked asked = divided_gpus({"rollout.placement=split", "rollout.gpus=32"});
  ASSERT_TRUE(asked.searched) << to_string(asked.searched.error());
  ASSERT_EQ(asked.answer.splits.size(), 1u);
  EXPECT_EQ(asked.answer.splits.front().refusal, "rollout.gpus = 32 leaves none of 32 GPUs to the training");
}

TEST(RolloutSearch, EndsWhenItIsStopped) {
  const Asked asked = divided_gpus({}, 32, {[] { return true; }});
  EXPECT_FALSE(asked.answer.complete);
  EXPECT_TRUE(asked.answer.splits.empty());
  std::atomic<int> calls = 0;
  const auto later_on = [&] { return ++calls > 1; };  // while the updates of the first split are searched
  const Asked later = divided_gpus({}, 32, {later_on});
  EXPECT_FALSE(later.answer.complete);
  EXPECT_TRUE(later.answer.splits.empty()) << "no split is refused for want of time";
}

// The search of the only split is stopped: that it found no plan is no reason why there is none.
TEST(RolloutSearch, ASplitThatIsStoppedIsNotRefused) {
  std::atomic<int> asked_before = 0;
  const Asked asked = divided_gpus({"rollout.placement=colocated"}, 32, {[&] { return asked_before++ > 0; }});
  ASSERT_TRUE(asked.searched) << to_string(asked.searched.error());
  EXPECT_FALSE(asked.answer.complete);
  EXPECT_TRUE(asked.answer.splits.empty());
}

}  // namespace
}  // namespace plumbline::sim
