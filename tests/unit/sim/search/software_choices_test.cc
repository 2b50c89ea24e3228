// What a search tries of the keys whose values a software stack lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/plan/layout.h"
#include "sim/search/choices.h"
#include "sim/search/space.h"
#include "tests/support/search_inputs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using Stages = std::vector<std::int64_t>;
using Words = std::vector<std::string>;

Inputs inputs_of(const std::vector<std::string>& overrides, const Words& stages) {
  Inputs inputs = tests::step_inputs(tests::llama_plan, "h800", overrides);
  inputs.plan.software["parallelism.zero_stage"] = {"old", stages};
  inputs.plan.software["schedule.kind"] = {"old", {"interleaved", "1f1b"}};
  return inputs;
}

TEST(SoftwareChoices, AreThoseOfTheStack) {
  const Inputs inputs = inputs_of({}, {"0", "1"});
  EXPECT_EQ(Choices(inputs, Breadth::quick).zero_stage, Stages{1});
  EXPECT_EQ(Choices(inputs, Breadth::complete).zero_stage, (Stages{0, 1}));
  const Words schedules = Choices(inputs, Breadth::quick).schedule(4, 1);
  EXPECT_EQ(std::set<std::string>(schedules.begin(), schedules.end()), (std::set<std::string>{"1f1b", "interleaved"}));
}

TEST(SoftwareChoices, LackThePlansOwnWhereTheStackDoes) {
  const Inputs inputs = inputs_of({"parallelism.zero_stage=3", "schedule.kind=gpipe"}, {"0", "1"});
  EXPECT_EQ(Choices(inputs, Breadth::quick).zero_stage, Stages{1});
  EXPECT_EQ(Choices(inputs, Breadth::quick).schedule(4, 1).size(), 2U);
}

TEST(SoftwareChoices, OfTheStackStandForThoseThatItLacks) {
  EXPECT_EQ(Choices(inputs_of({}, {"2"}), Breadth::quick).zero_stage, Stages{2});
  EXPECT_EQ(Choices(inputs_of({}, {"0", "2", "3"}), Breadth::quick).zero_stage, (Stages{2, 3}));
  EXPECT_EQ(Choices(inputs_of({}, {}), Breadth::quick).zero_stage, (Stages{1, 3}));
}

// Experts of one rank need no all-to-all, which a schedule could overlap.
TEST(SoftwareChoices, OverlapTheAllToAllWhereThereIsOne) {
  const Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800", {"schedule.kind=1f1b"});
  const Choices choices(inputs, Breadth::quick);
  const auto has = [&](std::int64_t expert) {
    const Words kinds = choices.schedule(4, expert);
    return std::ranges::find(kinds, "interleaved-overlap") != kinds.end();
  };
  EXPECT_TRUE(has(8));
  EXPECT_FALSE(has(1));
}

TEST(SoftwareChoices, ReserveSmsForKernelsThatAreGivenSome) {
  const auto sms = [](const std::string& dispatcher) {
    const Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800",
                                             {"overlap.communication_sms=0", "stack.dispatcher=" + dispatcher});
    return Choices(inputs, Breadth::quick).communication_sms(8);
  };
  EXPECT_EQ(sms("alltoall"), Stages{0});
  EXPECT_EQ(sms("deepep"), (Stages{0, 16, 20}));
}

TEST(SoftwareChoices, OfRecomputationAreThoseOfTheStack) {
  Inputs inputs = inputs_of({}, {"0", "1"});
  const auto selective = [&](const std::string& rule) {
    inputs.plan.software["rules"] = {"old", {rule}};
    for (const Recomputation& one : Choices(inputs, Breadth::complete).recompute)
      if (one.word == "selective") return one.operators;
    return Words{};
  };
  EXPECT_EQ(selective("whole-batches"), (Words{"rmsnorm", "swiglu"}));
  EXPECT_EQ(selective("recompute-modules"), Words{"rmsnorm"});
  EXPECT_EQ(selective("core-attention-alone"), Words{"core_attention"});
  inputs.plan.recompute = {"selective", {"swiglu"}, {}};  // the plan's own, which no rule but one refuses
  const auto given = [&](const std::string& rule) {
    inputs.plan.software["rules"] = {"old", {rule}};
    const auto choices = Choices(inputs, Breadth::complete).recompute;
    return std::ranges::count(choices, "given", &Recomputation::word);
  };
  EXPECT_EQ(given("whole-batches"), 1);
  EXPECT_EQ(given("recompute-modules"), 0);
  EXPECT_EQ(selective("selective-op"), (Words{"mlp", "swiglu", "rmsnorm"}));
}

// Every plan of the space has a layout that the software takes, and one that it refuses is not among them.
TEST(SoftwareChoices, AreNoneThatTheStackRefuses) {
  Inputs inputs = tests::search_inputs(
      tests::deepseek_plan, "h800", 8,
      {"cluster.gpus=16", "batch.global_batch_size=80", "schedule.layers_per_stage=[]", "schedule.kind=1f1b",
       "parallelism.pipeline=2", "parallelism.expert=8", "search.tensor=1", "search.context=1",
       "search.pipeline=[1, 2, 4]", "search.expert=[1, 4]", "search.expert_tensor=1", "search.micro_batch_size=1",
       "search.virtual_stages=[1, 2]", "search.zero_stage=[0, 1, 2]", "search.communication_sms=0",
       "search.schedule=[\"1f1b\", \"interleaved\", \"interleaved-overlap\"]", "search.recompute=[\"none\", \"full\"]",
       "search.split=[\"even\", \"last-1\"]"});
  inputs.architecture.multi_token_prediction_layers = 0;
  inputs.plan.software["rules"] = {
      "old", {"whole-batches", "interleaved-multiple", "expert-overlap", "even-layers", "zero-without-pipeline"}};
  const Space space(inputs);
  std::set<std::string> kinds;
  std::uint64_t plans = 0;
  tests::for_each_plan(space, [&](const Branch&, const Point&, const model::Plan& plan) {
    ++plans;
    const auto layout = model::make_layout(plan, inputs.architecture);
    ASSERT_TRUE(layout) << to_string(layout.error());
    EXPECT_TRUE(model::layout_warnings(plan, *layout).empty());
    kinds.insert(plan.schedule.kind);
  });
  EXPECT_EQ(plans, space.size());
  EXPECT_EQ(kinds, (std::set<std::string>{"1f1b", "interleaved", "interleaved-overlap"}));
}

// 8 ranks of one replica hold every state once: ZeRO 1 and 3 would be the same plan. Two replicas have both.
TEST(SoftwareChoices, HaveOneZeroStageWhereNothingIsSharded) {
  const Inputs inputs = inputs_of(
      {"cluster.gpus=8", "batch.global_batch_size=16", "schedule.kind=1f1b", "schedule.layers_per_stage=[]",
       "search.tensor=[4, 8]", "search.context=1", "search.pipeline=1", "search.micro_batch_size=1",
       "search.zero_stage=[1, 3]", "search.communication_sms=0", "search.recompute=none", "search.split=even"},
      {"1", "3"});
  std::map<std::int64_t, std::set<std::int64_t>> stages;  // by tensor ranks
  const Space space(inputs);
  tests::for_each_plan(space, [&](const Branch&, const Point& point, const model::Plan& plan) {
    stages[plan.parallelism.tensor].insert(point.zero_stage);
  });
  EXPECT_EQ(stages[4], (std::set<std::int64_t>{1, 3}));
  EXPECT_EQ(stages[8], std::set<std::int64_t>{1});
}

TEST(SoftwareChoices, AreThoseThatThePlanLists) {
  const Inputs inputs = inputs_of({"search.zero_stage=[2, 3]", "search.schedule=dualpipe"}, {"0", "1"});
  EXPECT_EQ(Choices(inputs, Breadth::quick).zero_stage, (Stages{2, 3}));
  EXPECT_EQ(Choices(inputs, Breadth::quick).schedule(4, 1), Words{"dualpipe"});
}

}  // namespace
}  // namespace plumbline::sim
