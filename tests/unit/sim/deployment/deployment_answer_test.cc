#include "sim/deployment/deployment_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace plumbline::sim {
namespace {

using testing::ElementsAre;

DeploymentOption serving_option(double value, std::vector<double> draws, bool within = true) {
  DeploymentOption option;
  option.search.best.push_back({.plan = {}, .result = {}, .value = value, .within = within});
  option.value_draws = std::move(draws);
  return option;
}

DeploymentAnswer ranked_answer(Objective objective, std::vector<DeploymentOption> options) {
  DeploymentAnswer answer;
  answer.objective = objective;
  answer.options = std::move(options);
  rank(answer);
  return answer;
}

TEST(DeploymentAnswer, TheBestIsCountedDrawByDraw) {
  // The first is better in two draws and as good in one.
  const auto throughput =
      ranked_answer(Objective::throughput, {serving_option(10, {10, 10, 8, 9}), serving_option(9, {9, 11, 8, 7})});
  EXPECT_THAT(throughput.order, ElementsAre(0, 1));
  EXPECT_THAT(throughput.best_with, ElementsAre(2.5 / 4, 1.5 / 4));
  // The shorter time is the better one, so the second is first.
  const auto latency =
      ranked_answer(Objective::latency, {serving_option(10, {10, 10, 8, 9}), serving_option(9, {9, 11, 8, 7})});
  EXPECT_THAT(latency.order, ElementsAre(1, 0));
  EXPECT_THAT(latency.best_with, ElementsAre(2.5 / 4, 1.5 / 4));
}

TEST(DeploymentAnswer, WhatBreaksALimitIsBestOnlyWhereNothingKeepsThem) {
  const auto one =
      ranked_answer(Objective::throughput, {serving_option(10, {10, 10}, false), serving_option(9, {9, 9})});
  EXPECT_THAT(one.order, ElementsAre(1, 0));
  EXPECT_THAT(one.best_with, ElementsAre(1, 0));
  const auto none =
      ranked_answer(Objective::throughput, {serving_option(10, {10, 8}, false), serving_option(9, {9, 9}, false)});
  EXPECT_THAT(none.best_with, ElementsAre(0.5, 0.5));
}

TEST(DeploymentAnswer, WithoutDrawsNothingIsKnownOfTheBest) {
  EXPECT_THAT(ranked_answer(Objective::throughput, {serving_option(10, {10}), serving_option(9, {})}).best_with,
              testing::IsEmpty());
  EXPECT_THAT(ranked_answer(Objective::throughput, {}).best_with, testing::IsEmpty());
}

}  // namespace
}  // namespace plumbline::sim
