#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/plan/plan_verb.h"
#include "sim/search/cluster_option.h"

namespace plumbline::cli {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Trains 8 G parameters on H100 of 80 GB: parameters in BF16, gradients, master weights and moments in FP32 take 144
// GB, without what the optimizer holds 48 GB.
sim::ClusterOption searched(const std::string& offer, const std::string& remedies, double host_bytes = 2e12) {
  SearchRequest request;
  request.plan.plan = "llama-3-8b";
  request.offers = {offer};
  if (!remedies.empty()) request.plan.overrides = {"search.remedies=" + remedies};
  sim::ClusterOption option = load_options(request, find_recipe(request).value(), Purpose::training).value().front();
  option.inputs.cluster.device.host_memory = model::Bytes(host_bytes);
  sim::SearchOptions options;
  options.top = 1;
  options.breadth = sim::Breadth::quick;
  EXPECT_TRUE(sim::search_with_remedies(option, options));
  return option;
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
  EXPECT_THAT(option.notes, Not(Contains(HasSubstr("no plan fits"))));
}

TEST(Remedies, LeavePlansAloneThatFit) {
  const sim::ClusterOption option = searched("h100-dgx:8", "");
  ASSERT_FALSE(option.plans.empty());
  EXPECT_FALSE(option.plans.front().plan.offload.optimizer);
}

TEST(Remedies, AreThoseOfThePlan) {
  const sim::ClusterOption none = searched("h100-dgx:1", "none");
  EXPECT_TRUE(none.plans.empty());
  EXPECT_THAT(none.notes, Not(Contains(HasSubstr("no plan fits"))));
  // 112 GB do not fit either.
  const sim::ClusterOption narrow = searched("h100-dgx:1", "bf16_moments");
  EXPECT_TRUE(narrow.plans.empty());
  EXPECT_THAT(narrow.notes, Contains("no plan fits in memory with precision.optimizer_moments=bf16"));
}

}  // namespace
}  // namespace plumbline::cli
