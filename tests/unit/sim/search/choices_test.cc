#include "sim/search/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/plan/layout.h"
#include "sim/search/break_even.h"
#include "sim/search/space.h"
#include "tests/support/search_inputs.h"
#include "tests/support/step_inputs.h"
#include "topologies/fabric.h"

namespace plumbline::sim {
namespace {

using Stages = std::vector<std::int64_t>;
using Words = std::vector<std::string>;

// What a search tries of the keys whose values a software stack lists.

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

// The key is warned of; no degrees would make it do anything. 48 sequences over 64 ranks are refused all the same.
TEST(Space, AKeyWithoutEffectRefusesNoPlan) {
  const auto plans = [](const char* change) {
    const Inputs inputs = tests::step_inputs(tests::llama_plan, "h800",
                                             {change, "search.tensor=1", "search.context=1", "search.pipeline=1"});
    return Space(inputs).size();
  };
  const std::uint64_t all = plans("training.rank=16");  // the default
  EXPECT_GT(all, 0U);
  EXPECT_EQ(plans("training.rank=8"), all);
  EXPECT_EQ(plans("batch.global_batch_size=48"), 0U);
}

// 48 GPUs are four nodes of 12. Groups of 4 experts fill them; groups of 8 would take 8 GPUs of each of six nodes, half
// as many again, unless the plan states that it has these.
TEST(Space, HasNoPlansThatNeedManyMoreNodes) {
  Inputs inputs = tests::search_inputs(
      tests::deepseek_plan, "h800", 8,
      {"cluster.gpus=48", "batch.global_batch_size=96", "schedule.layers_per_stage=[]", "schedule.kind=1f1b",
       "parallelism.pipeline=1", "parallelism.expert=4", "search.tensor=1", "search.context=1", "search.pipeline=1",
       "search.expert=[4, 8]", "search.expert_tensor=1", "search.micro_batch_size=1", "search.zero_stage=1",
       "search.communication_sms=0", "search.recompute=none", "search.split=even"});
  topologies::FabricShape& nodes = inputs.fabric.emplace();
  nodes.gpus_per_node = nodes.nics = 12;
  nodes.gpu_bandwidth = 900e9;
  nodes.nic_bandwidth = 50e9;
  nodes.layers = 1;
  nodes.switch_ports = 48;
  const auto experts = [&] {
    std::set<std::int64_t> found;
    const Space space(inputs);
    for (const Branch& branch : space.branches()) found.insert(branch.parallelism.expert);
    return found;
  };
  EXPECT_EQ(experts(), std::set<std::int64_t>{4});
  inputs.plan.search.expert = {8};
  EXPECT_EQ(
      Space(inputs).refusal().message,
      "no combination of the values that were tried is a plan; what refuses most of them: parallelism.expert: 8 of "
      "the 12 GPUs of a node would be used, and 6 nodes instead of 4 (--set cluster.domain_gpus=8 takes so many "
      "nodes)");
  inputs.plan.cluster.domain_gpus = 8;
  EXPECT_EQ(experts(), std::set<std::int64_t>{8});
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

// Llama 3 8B on 64 H800: a plan with much traffic inside the node, and one with a bubble.
class TwoPlans : public testing::Test {
 protected:
  const Inputs tensor_ = tests::step_inputs(
      tests::llama_plan, "h800", {"parallelism.tensor=2", "parallelism.sequence=true", "parallelism.pipeline=1"});
  const Inputs pipeline_ = tests::step_inputs(tests::llama_plan, "h800");
};

double closed_form(const Inputs& inputs) {
  return simulate(inputs, Fidelity::closed_form, false).value().result.step.time_s;
}

BreakEvenCandidate candidate(const Inputs& inputs, double step_s, double weight = 1) {
  return {&inputs, step_s, weight};
}

const BreakEven& find(const std::vector<BreakEven>& found, BreakEvenQuantity quantity) {
  return *std::ranges::find(found, quantity, &BreakEven::quantity);
}

TEST(BreakEven, ChangesAreOfTheQuantityAlone) {
  const Inputs inputs = tests::wired_inputs(tests::deepseek_plan, "h800");
  const Inputs nic = changed(inputs, BreakEvenQuantity::nic_bandwidth, 0.5);
  EXPECT_DOUBLE_EQ(nic.cluster.nic_bandwidth.value(), inputs.cluster.nic_bandwidth.value() / 2);
  EXPECT_DOUBLE_EQ(nic.fabric->nic_bandwidth, inputs.fabric->nic_bandwidth / 2);
  EXPECT_DOUBLE_EQ(nic.cluster.intra_node_bandwidth.value(), inputs.cluster.intra_node_bandwidth.value());
  const Inputs faster = changed(inputs, BreakEvenQuantity::gemm_rate, 2);
  const auto value = [](const Inputs& of, const char* name) {
    return of.profile.parameters()[of.profile.find(name).value()].value;
  };
  EXPECT_DOUBLE_EQ(value(faster, "gemm.fp8.k_time"), value(inputs, "gemm.fp8.k_time") / 2);
  EXPECT_DOUBLE_EQ(value(faster, "gemm.fp8.wave_overhead"), value(inputs, "gemm.fp8.wave_overhead"));
  const Inputs memory = changed(inputs, BreakEvenQuantity::memory_bandwidth, 2);
  EXPECT_DOUBLE_EQ(value(memory, "memory.default.bandwidth"), value(inputs, "memory.default.bandwidth") * 2);
  EXPECT_DOUBLE_EQ(changed(inputs, BreakEvenQuantity::imbalance, 3).plan.routing.imbalance,
                   inputs.plan.routing.imbalance * 3);
}

TEST_F(TwoPlans, FoundAtTheNodeLinksAndHoldsOnBothSides) {
  // The plan with tensor-parallel collectives is 3 % ahead, as if by events: slower links put it behind.
  const double winner_s = 1.0, other_s = 1.03;
  const auto found = break_evens(candidate(tensor_, winner_s), {candidate(pipeline_, other_s)}, {true}, {});
  const BreakEven& break_even = find(found, BreakEvenQuantity::nvlink_bandwidth);
  ASSERT_TRUE(break_even.factor);
  EXPECT_LT(*break_even.factor, 1);
  EXPECT_EQ(break_even.by, 0u);
  const auto lead = [&](double factor) {
    const auto at = [&](const Inputs& inputs) {
      return closed_form(changed(inputs, BreakEvenQuantity::nvlink_bandwidth, factor)) / closed_form(inputs);
    };
    return other_s * at(pipeline_) - winner_s * at(tensor_);
  };
  EXPECT_LT(lead(*break_even.factor), 0);          // the order is reversed
  EXPECT_GT(lead(*break_even.factor * 1.011), 0);  // bisected to 1 %
}

TEST_F(TwoPlans, FarAheadNothingReversesIt) {
  for (const BreakEven& break_even : break_evens(candidate(tensor_, 1), {candidate(pipeline_, 100)}, {true}, {}))
    EXPECT_FALSE(break_even.factor) << describe(break_even.quantity);
}

TEST_F(TwoPlans, PricesAreArithmetic) {
  BreakEvenOptions options;
  options.weight_is_price = true;
  // 10 s at 2 a second cost 20; 6 s at 4 cost 24: x1.2. The other plan on the same hardware has the same price.
  const auto found = break_evens(candidate(tensor_, 10, 2), {candidate(pipeline_, 10.5, 2), candidate(pipeline_, 6, 4)},
                                 {true, false}, options);
  const BreakEven& break_even = find(found, BreakEvenQuantity::price);
  ASSERT_TRUE(break_even.factor);
  EXPECT_DOUBLE_EQ(*break_even.factor, 1.2);
  EXPECT_EQ(break_even.by, 1u);
}

TEST_F(TwoPlans, QuantitiesThatCannotMatterAreLeftOut) {
  const auto found = break_evens(candidate(tensor_, 1), {candidate(pipeline_, 1.03)}, {true}, {});
  EXPECT_EQ(std::ranges::count(found, BreakEvenQuantity::imbalance, &BreakEven::quantity), 0);  // the model is dense
  EXPECT_EQ(std::ranges::count(found, BreakEvenQuantity::price, &BreakEven::quantity), 0);
}

TEST_F(TwoPlans, IsTheSameForAnyNumberOfThreads) {
  const auto with = [&](unsigned threads) {
    BreakEvenOptions options;
    options.threads = threads;
    return break_evens(candidate(tensor_, 1), {candidate(pipeline_, 1.03)}, {true}, options);
  };
  const auto one = with(1), four = with(4);
  ASSERT_EQ(one.size(), four.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].factor, four[i].factor);
}

TEST_F(TwoPlans, AfterAStopNothingIsReported) {
  BreakEvenOptions options;
  options.stopped = [] { return true; };
  for (const BreakEven& break_even :
       break_evens(candidate(tensor_, 1), {candidate(pipeline_, 1.0001)}, {true}, options))
    EXPECT_FALSE(break_even.factor);
}

}  // namespace
}  // namespace plumbline::sim
