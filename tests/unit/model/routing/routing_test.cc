#include <gtest/gtest.h>

#include <cmath>

#include "model/architecture/load_architecture.h"
#include "model/plan/plan.h"
#include "model/program/program.h"
#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

MixtureOfExperts experts(const std::string& name) {
  return load_architecture(tests::shipped("examples/models/" + name + ".json")).value().experts;
}

TEST(Routing, DeepSeekV3OverSixtyFourRanks) {
  // The published gate (8 groups, the best 4 by their two best experts, top 8 of 256) on random scores reaches 3.966
  // distinct nodes of 8 ranks per token, and 30,686 tokens are received per 4,096 sent.
  const RoutingSpread spread = routing_spread(experts("deepseek-v3"), 4, 64, 8);
  EXPECT_NEAR(spread.nodes_per_token, 3.966, 0.01);
  EXPECT_NEAR(spread.ranks_per_token, 30686.0 / 4096, 0.005 * 30686 / 4096);
}

TEST(Routing, StaysWithinItsBounds) {
  for (const char* name : {"deepseek-v3", "deepseek-v2"}) {
    const MixtureOfExperts e = experts(name);
    for (const std::int64_t groups : {std::int64_t{1}, e.groups_per_token, e.groups}) {
      for (const std::int64_t ranks : {2, 8, 16, 32}) {
        const RoutingSpread spread = routing_spread(e, groups, ranks, 8);
        EXPECT_GE(spread.nodes_per_token, 1);
        EXPECT_LE(spread.nodes_per_token, spread.ranks_per_token);
        EXPECT_LE(spread.ranks_per_token, static_cast<double>(std::min(ranks, e.experts_per_token)));
        EXPECT_LE(spread.nodes_per_token, static_cast<double>((ranks + 7) / 8));
      }
    }
  }
}

TEST(Routing, AGroupThatFillsANodeLimitsTheNodes) {
  // 8 groups on 8 nodes: a token reaches as many nodes as groups at most, and just one with one group.
  const MixtureOfExperts e = experts("deepseek-v3");
  EXPECT_EQ(routing_spread(e, 1, 64, 8).nodes_per_token, 1);
  double before = 1;
  for (const std::int64_t groups : {2, 4, 8}) {
    const double nodes = routing_spread(e, groups, 64, 8).nodes_per_token;
    EXPECT_GT(nodes, before);
    EXPECT_LE(nodes, static_cast<double>(groups));
    before = nodes;
  }
}

TEST(Routing, WithoutParallelismOrExpertsNothingSpreads) {
  const RoutingSpread one = routing_spread(experts("deepseek-v3"), 4, 1, 8);
  EXPECT_EQ(one.ranks_per_token, 1);
  EXPECT_EQ(one.nodes_per_token, 1);
  EXPECT_EQ(routing_spread(experts("llama-3-8b"), 1, 1, 8).ranks_per_token, 0);
}

// The more experts an auxiliary loss balances, the more their loads vary.
TEST(Routing, AnAuxiliaryLossLeavesMoreToManyExperts) {
  const auto middle = [](std::int64_t count) {
    return routing_balance(Plan{}, {.routed_experts = count, .experts_per_token = 2}).middle *
           std::sqrt(static_cast<double>(count));
  };
  EXPECT_NEAR(middle(64), 0.3, 1e-12);
  EXPECT_NEAR(middle(8), 0.0375, 1e-12);
  EXPECT_NEAR(middle(128), 0.6, 1e-12);
  EXPECT_NEAR(middle(1024), 0.83, 1e-12);
}

// 0.15 and 0.3 of one expert even out over the four experts of a rank.
TEST(Routing, APlanThatStatesNothingHasARange) {
  Plan plan = load_plan(tests::shipped("examples/deepseek-v3-2048xh800.toml"), {}).value();
  const MixtureOfExperts e = experts("deepseek-v3");
  EXPECT_TRUE(routing_balance(plan, e).stated);
  EXPECT_DOUBLE_EQ(routing_balance(plan, e).used, 0.075);
  plan.routing.imbalance = 0;
  EXPECT_TRUE(routing_balance(plan, e).stated);  // the file gives the key
  plan.places.clear();
  const RoutingBalance unknown = routing_balance(plan, e);
  EXPECT_FALSE(unknown.stated);
  EXPECT_EQ(unknown.used, 0);
  EXPECT_EQ(unknown.low, 0);
  EXPECT_DOUBLE_EQ(unknown.middle, 0.075);
  EXPECT_DOUBLE_EQ(unknown.high, 0.15);
}

TEST(Routing, IsTheSameEveryTime) {
  const MixtureOfExperts e = experts("deepseek-v3");
  EXPECT_EQ(routing_spread(e, 4, 64, 8).ranks_per_token, routing_spread(e, 4, 64, 8).ranks_per_token);
}

}  // namespace
}  // namespace plumbline::model
