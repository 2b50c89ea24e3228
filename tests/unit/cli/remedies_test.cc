#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/plan/plan_verb.h"
#include "sim/search/cluster_option.h"

namespace plumbline::cli {
namespace {

using testing::Contains;

// Trains 8 G parameters on H100 of 80 GB: parameters in BF16, gradients, master weights and moments in FP32 take 144
// GB, without what the optimizer holds 48 GB.
sim::ClusterOption searched_with(const std::string& offer, std::vector<std::string> overrides, double host_bytes,
                                 double gpu_bytes = 0) {
  SearchRequest request;
  request.plan.plan = "llama-3-8b";
  request.offers = {offer};
  request.plan.overrides = std::move(overrides);
  sim::ClusterOption option = load_options(request, find_recipe(request).value(), Purpose::training).value().front();
  option.inputs.cluster.device.host_memory = model::Bytes(host_bytes);
  if (gpu_bytes > 0) option.inputs.cluster.device.memory = model::Bytes(gpu_bytes);
  sim::SearchOptions options;
  options.top = 1;
  options.breadth = sim::Breadth::quick;
  EXPECT_TRUE(sim::search_with_remedies(option, options));
  return option;
}

sim::ClusterOption searched(const std::string& offer, const std::string& remedies, double host_bytes = 2e12,
                            const std::string& tokens = "") {
  std::vector<std::string> overrides;
  if (!remedies.empty()) overrides.push_back("search.remedies=" + remedies);
  if (!tokens.empty()) overrides.push_back("run.tokens=" + tokens);
  return searched_with(offer, std::move(overrides), host_bytes);
}

TEST(Remedies, AreTriedWhereNothingFits) {
  const sim::ClusterOption option = searched("h100-dgx:1", "");
  ASSERT_FALSE(option.plans.empty());
  EXPECT_TRUE(option.plans.front().plan.offload.optimizer);
  EXPECT_EQ(option.plans.front().plan.offload.activations, 0);
  EXPECT_THAT(option.notes, Contains("no plan fits in memory without offload.optimizer=true"));
}

TEST(Remedies, AreTakenBackWhereTheHostsCannotHoldThem) {
  // Master weights, moments and gradients of the update are 128 GB.
  const sim::ClusterOption option = searched("h100-dgx:1", "offload_optimizer", 100e9);
  EXPECT_TRUE(option.plans.empty());
  EXPECT_THAT(option.notes, Contains("the hosts do not hold what offload.optimizer=true puts there"));
  EXPECT_THAT(option.notes, testing::Not(Contains(testing::HasSubstr("no plan fits"))));
}

// With moments in BF16 the host holds 96 GB, which it does; the GPU alone would still hold 112.
TEST(Remedies, ThatHostsRefusedAreTriedAgainWithNarrowerStates) {
  const sim::ClusterOption option = searched("h100-dgx:1", R"(["offload_optimizer", "bf16_moments"])", 160e9);
  ASSERT_FALSE(option.plans.empty());
  EXPECT_TRUE(option.plans.front().plan.offload.optimizer);
  EXPECT_EQ(option.plans.front().plan.precision.optimizer_moments, model::Precision::bf16);
  EXPECT_THAT(option.notes, Contains("no plan fits in memory without offload.optimizer=true, "
                                     "precision.optimizer_moments=bf16"));
}

// Without what the optimizer holds 48 GB stay of states, with gradients in BF16 32: activations may stay, too.
TEST(Remedies, OffloadNothingThatLaterOnesMakeNeedless) {
  const sim::ClusterOption option = searched_with(
      "h100-dgx:1", {R"(search.remedies=["offload_optimizer", "offload_activations", "bf16_gradients"])"}, 2e12, 54e9);
  ASSERT_FALSE(option.plans.empty());
  const model::Plan& plan = option.plans.front().plan;
  EXPECT_TRUE(plan.offload.optimizer);
  EXPECT_EQ(plan.offload.activations, 0);
  EXPECT_EQ(plan.precision.gradients, model::Precision::bf16);
  EXPECT_THAT(option.notes, Contains("no plan fits in memory without offload.optimizer=true, "
                                     "precision.gradients=bf16"));
}

// A host of a capacity holds 128.5 GB with (capacity / 128.5 GB - 1) / 0.5.
TEST(Remedies, APlanIsAsSureAsGpuAndHostTogether) {
  const std::vector<std::string> offloaded = {"offload.optimizer=true", "search.remedies=none"};
  constexpr double ample = 200e9;  // of the GPU
  const sim::ClusterOption edge = searched_with("h100-dgx:1", offloaded, 160e9, ample);
  EXPECT_TRUE(edge.search.best.empty());
  EXPECT_TRUE(edge.plans.empty());
  double surest = 0;
  for (const sim::RankedPlan& plan : edge.edge) surest = std::max(surest, plan.result.memory.fits_probability.value());
  EXPECT_LE(surest, 0.491);
  EXPECT_GE(surest, 0.45);
  const sim::ClusterOption sure = searched_with("h100-dgx:1", offloaded, 200e9, ample);
  EXPECT_FALSE(sure.plans.empty());
  const sim::ClusterOption none = searched_with("h100-dgx:1", offloaded, 130e9, ample);  // holds it with 2 %
  EXPECT_TRUE(none.plans.empty());
  EXPECT_TRUE(none.search.edge.empty());
  EXPECT_THAT(none.search.removed, Contains(testing::Field(&sim::Removed::rule, sim::host_rule)));
}

TEST(Remedies, OfAFineTuningEndWithStatesInBf16) {
  // No host holds anything; gradients and moments in BF16 leave 12 bytes a parameter, 96 GB of 150.
  const sim::ClusterOption pretraining = searched("h200-hgx:1", "", 1e9),
                           tuning = searched("h200-hgx:1", "", 1e9, "1e8");
  EXPECT_TRUE(pretraining.plans.empty());
  ASSERT_FALSE(tuning.plans.empty());
  const model::Plan& plan = tuning.plans.front().plan;
  EXPECT_EQ(plan.precision.gradients, model::Precision::bf16);
  EXPECT_EQ(plan.precision.optimizer_moments, model::Precision::bf16);
  EXPECT_EQ(plan.precision.master_weights, model::Precision::fp32);
  EXPECT_FALSE(plan.offload.optimizer);
}

TEST(Remedies, LeavePlansAloneThatFit) {
  const sim::ClusterOption option = searched("h100-dgx:8", "");
  ASSERT_FALSE(option.plans.empty());
  EXPECT_FALSE(option.plans.front().plan.offload.optimizer);
}

TEST(Remedies, AreThoseOfThePlan) {
  const sim::ClusterOption none = searched("h100-dgx:1", "none");
  EXPECT_TRUE(none.plans.empty());
  EXPECT_THAT(none.notes, testing::Not(Contains(testing::HasSubstr("no plan fits"))));
  // 112 GB do not fit either.
  const sim::ClusterOption narrow = searched("h100-dgx:1", "bf16_moments");
  EXPECT_TRUE(narrow.plans.empty());
  EXPECT_THAT(narrow.notes, Contains("no plan fits in memory with precision.optimizer_moments=bf16"));
}

}  // namespace
}  // namespace plumbline::cli
