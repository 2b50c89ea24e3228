#include "sim/search/break_even.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

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
