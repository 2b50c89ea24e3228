#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "sim/search/ranking.h"

namespace plumbline::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

PlanCost cost(const std::string& errors, double days, std::optional<double> usd, double uncertainty, double gpus = 64) {
  PlanCost made;
  made.errors = errors;
  made.gpus = gpus;
  made.step_s = days;
  made.days = days;
  made.gpu_hours = days * 24 * gpus;
  made.usd = made.usd_low = made.usd_high = usd;
  made.uncertainty = uncertainty;
  return made;
}

TEST(PlanRanking, EachObjectiveHasItsOrder) {
  // Days 10, 20, 30; dollars 9, 8, none; GPU-hours 10 * 64, 20 * 64, 30 * 8 (times 24).
  const std::vector<PlanCost> candidates = {cost("a", 10, 9, 0.1), cost("b", 20, 8, 0.1),
                                            cost("c", 30, std::nullopt, 0.1, 8)};
  EXPECT_THAT(ranked(candidates, Objective::time, {}), ElementsAre(0, 1, 2));
  EXPECT_THAT(ranked(candidates, Objective::cost, {}), ElementsAre(1, 0, 2));
  EXPECT_THAT(ranked(candidates, Objective::gpu_hours, {}), ElementsAre(2, 0, 1));
}

TEST(PlanRanking, WithoutTokensTheStepCounts) {
  PlanCost fast, slow;
  fast.step_s = 1;
  fast.gpus = 64;
  slow.step_s = 2;
  slow.gpus = 16;
  EXPECT_THAT(ranked({slow, fast}, Objective::time, {}), ElementsAre(1, 0));
  EXPECT_THAT(ranked({slow, fast}, Objective::gpu_hours, {}), ElementsAre(0, 1));
  EXPECT_FALSE(measure(fast, Objective::cost));
}

TEST(PlanRanking, WhatExceedsALimitComesAfterWhatDoesNot) {
  const std::vector<PlanCost> candidates = {cost("a", 10, 9, 0.1), cost("b", 20, 8, 0.1), cost("c", 30, 7, 0.1)};
  const Limits deadline{.days = 15, .usd = std::nullopt}, budget{.days = std::nullopt, .usd = 8};
  EXPECT_THAT(ranked(candidates, Objective::cost, deadline), ElementsAre(0, 2, 1));
  EXPECT_THAT(ranked(candidates, Objective::time, budget), ElementsAre(1, 2, 0));
  EXPECT_FALSE(within(cost("d", 1, std::nullopt, 0.1), budget));
  EXPECT_TRUE(within(cost("d", 1, std::nullopt, 0.1), deadline));
}

TEST(PlanRanking, ParetoFront) {
  const std::vector<PlanCost> candidates = {cost("a", 10, 9, 0.1),           cost("b", 20, 8, 0.1),
                                            cost("c", 20, 9, 0.1),           cost("d", 11, 9, 0.1),
                                            cost("e", 5, std::nullopt, 0.1), cost("f", 10, 9, 0.1)};
  // c is beaten by b and a, d by a; f equals a, so neither beats the other; e has no price.
  EXPECT_THAT(dominated(candidates), ElementsAre(false, false, true, true, std::nullopt, false));
}

TEST(PlanRanking, AnIntervalInvertsTheErrorOfThePrediction) {
  // Predicted 10 with an error of -20 % is really 12.5, with +20 % it is 8.33.
  const auto days = interval(cost("a", 10, 4, 0.2), Objective::time).value();
  EXPECT_DOUBLE_EQ(days.low, 10 / 1.2);
  EXPECT_DOUBLE_EQ(days.high, 12.5);
  PlanCost priced = cost("a", 10, 4, 0.2);
  priced.usd_low = 3;
  priced.usd_high = 6;
  EXPECT_DOUBLE_EQ(interval(priced, Objective::cost)->low, 2.5);
  EXPECT_DOUBLE_EQ(interval(priced, Objective::cost)->high, 7.5);
  priced.uncertainty = std::nullopt;
  EXPECT_FALSE(interval(priced, Objective::cost));
  EXPECT_FALSE(interval(cost("a", 10, 4, 1.0), Objective::time));
}

TEST(PlanRanking, NoWinnerWhileIntervalsOverlap) {
  // 10 with 10 %: up to 11.1; 12 with 10 %: from 10.9; 13 with 10 %: from 11.8.
  const std::vector<PlanCost> close = {cost("a", 10, 1, 0.1), cost("b", 12, 1, 0.1), cost("c", 13, 1, 0.1)};
  const Verdict open = verdict(close, ranked(close, Objective::time, {}), Objective::time, {});
  EXPECT_FALSE(open.winner);
  EXPECT_THAT(open.indistinguishable, ElementsAre(1));
  const std::vector<PlanCost> far = {cost("a", 10, 1, 0.1), cost("c", 13, 1, 0.1)};
  const Verdict clear = verdict(far, ranked(far, Objective::time, {}), Objective::time, {});
  EXPECT_EQ(clear.winner, 0u);
  EXPECT_THAT(clear.indistinguishable, IsEmpty());
}

TEST(PlanRanking, CommonErrorsCancelAndLessThanTheScatterIsATie) {
  const std::vector<PlanCost> candidates = {cost("a", 10, 1, 0.5), cost("a", 10.9, 1, 0.5), cost("a", 11.1, 1, 0.5)};
  const Verdict result = verdict(candidates, ranked(candidates, Objective::time, {}), Objective::time, {});
  EXPECT_EQ(result.winner, 0u);
  EXPECT_THAT(result.ties, ElementsAre(1));
}

TEST(PlanRanking, SchedulesOfOneLayoutAreCloserThanLayouts) {
  model::Plan plan, schedule, layout;
  schedule.schedule.kind = "zb-h1";
  layout.batch.micro_batch_size = 2;
  EXPECT_DOUBLE_EQ(tie_margin(plan, schedule), schedule_scatter);
  EXPECT_DOUBLE_EQ(tie_margin(plan, layout), layout_scatter);
}

TEST(PlanRanking, UnknownUncertaintySeparatesNothing) {
  std::vector<PlanCost> candidates = {cost("a", 10, 1, 0.1), cost("b", 1000, 1, 0.1)};
  candidates[1].uncertainty = std::nullopt;
  EXPECT_EQ(standing(candidates[0], candidates[1], Objective::time), Standing::indistinguishable);
}

TEST(PlanRanking, OnlyWhatIsWithinTheLimitsCanWinOrTie) {
  const std::vector<PlanCost> candidates = {cost("a", 10, 9, 0.1), cost("b", 10.1, 8, 0.1)};
  const Limits budget{.days = std::nullopt, .usd = 8.5};
  EXPECT_EQ(verdict(candidates, ranked(candidates, Objective::time, budget), Objective::time, budget).winner, 1u);
  const Limits impossible{.days = 1, .usd = std::nullopt};
  EXPECT_FALSE(
      verdict(candidates, ranked(candidates, Objective::time, impossible), Objective::time, impossible).winner);
  EXPECT_FALSE(verdict({}, {}, Objective::time, {}).winner);
}

TEST(PlanRanking, CostOverSeveralSizesNeedsADeadline) {
  const std::vector<PlanCost> sizes = {cost("a", 10, 9, 0.1, 64), cost("a", 20, 8, 0.1, 32)};
  const std::vector<PlanCost> one = {cost("a", 10, 9, 0.1), cost("b", 20, 8, 0.1)};
  const Limits deadline{.days = 30, .usd = std::nullopt};
  EXPECT_TRUE(degenerate(sizes, Objective::cost, {}));
  EXPECT_TRUE(degenerate(sizes, Objective::gpu_hours, {}));
  EXPECT_FALSE(degenerate(sizes, Objective::cost, deadline));
  EXPECT_FALSE(degenerate(sizes, Objective::time, {}));
  EXPECT_FALSE(degenerate(one, Objective::cost, {}));
}

}  // namespace
}  // namespace plumbline::sim
