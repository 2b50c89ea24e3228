#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/interval/hypercube.h"
#include "sim/search/cluster_option.h"
#include "sim/search/detail/plan_draws.h"
#include "sim/search/ranking.h"
#include "tests/support/inputs.h"

namespace plumbline::sim {
namespace {

using model::ErrorKind;
using testing::ElementsAre;
using tests::expect_error;

PlanCost cost(double days, std::optional<double> usd, double gpus = 64) {
  PlanCost made;
  made.gpus = gpus;
  made.step_s = days;
  made.days = days;
  made.gpu_hours = days * 24 * gpus;
  made.usd = usd;
  return made;
}

// Adds draws of the step, at one price.
PlanCost drawn(PlanCost made, std::vector<double> time) {
  made.price_draws.assign(time.size(), 1);
  made.time_draws = std::move(time);
  return made;
}

// Returns exp(deviation * z) for 1,000 z of a standard normal number that depend on the key alone.
std::vector<double> errors(const std::string& key, double deviation) {
  std::vector<double> factors = normal_column(key, 1, 1000);
  for (double& factor : factors) factor = std::exp(deviation * factor);
  return factors;
}

std::vector<double> times(std::vector<double> factors, const std::vector<double>& others) {
  std::ranges::transform(factors, others, factors.begin(), std::multiplies());
  return factors;
}

TEST(PlanRanking, EachObjectiveHasItsOrder) {
  // Days 10, 20, 30; dollars 9, 8, none; GPU-hours 10 * 64, 20 * 64, 30 * 8 (times 24).
  const std::vector<PlanCost> candidates = {cost(10, 9), cost(20, 8), cost(30, std::nullopt, 8)};
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
  PlanCost cheaper = fast;
  fast.usd = 2;
  cheaper.usd = 1;
  EXPECT_THAT(ranked({slow, fast, cheaper}, Objective::time, {}), ElementsAre(2, 1, 0));
  EXPECT_FALSE(measure(slow, Objective::cost));
}

TEST(PlanRanking, WhatExceedsALimitComesAfterWhatDoesNot) {
  const std::vector<PlanCost> candidates = {cost(10, 9), cost(20, 8), cost(30, 7)};
  const Limits deadline{.days = 15, .usd = std::nullopt}, budget{.days = std::nullopt, .usd = 8};
  EXPECT_THAT(ranked(candidates, Objective::cost, deadline), ElementsAre(0, 2, 1));
  EXPECT_THAT(ranked(candidates, Objective::time, budget), ElementsAre(1, 2, 0));
  EXPECT_FALSE(within(cost(1, std::nullopt), budget));
  EXPECT_TRUE(within(cost(1, std::nullopt), deadline));
}

TEST(PlanRanking, ParetoFront) {
  const std::vector<PlanCost> candidates = {cost(10, 9), cost(20, 8),           cost(20, 9),
                                            cost(11, 9), cost(5, std::nullopt), cost(10, 9)};
  // c is beaten by b and a, d by a; f equals a, so neither beats the other; e has no price.
  EXPECT_THAT(dominated(candidates), ElementsAre(false, false, true, true, std::nullopt, false));
}

TEST(PlanRanking, ErrorsThatPlansShareCancelThoughTheirIntervalsOverlap) {
  // Both are 20 % uncertain, and the second is 3 % slower in every draw.
  const std::vector<double> shared = errors("shared", 0.2);
  const std::vector<PlanCost> plans = {drawn(cost(10, 1), shared), drawn(cost(10.3, 1), shared)};
  EXPECT_TRUE(std::ranges::any_of(shared, [&](double one) {  // a draw of the first above one of the second
    return std::ranges::any_of(shared, [&](double other) { return 10 * one > 10.3 * other; });
  }));
  const auto best = probabilities_best(plans, Objective::time, {});
  EXPECT_THAT(best, ElementsAre(testing::DoubleNear(1, 1e-9), 0));
  EXPECT_EQ(verdict(best).winner, 0u);
  EXPECT_THAT(verdict(best).contenders, testing::IsEmpty());
  EXPECT_EQ(probability_better(plans[0], plans[1], Objective::time), 1);
}

TEST(PlanRanking, NoWinnerBetweenClustersWithErrorsOfTheirOwn) {
  // ln of the ratio is normal with mean ln(10.3 / 10) = 0.0296 and deviation 0.2 * sqrt(2) = 0.283, so the first is the
  // better one with the normal probability of 0.105: 0.542.
  const std::vector<PlanCost> plans = {drawn(cost(10, 1), errors("a", 0.2)), drawn(cost(10.3, 1), errors("b", 0.2))};
  const auto best = probabilities_best(plans, Objective::time, {});
  EXPECT_NEAR(best[0], 0.542, 0.03);
  EXPECT_NEAR(best[0] + best[1], 1, 1e-9);
  EXPECT_FALSE(verdict(best).winner);
  EXPECT_THAT(verdict(best).contenders, ElementsAre(0, 1));
}

TEST(PlanRanking, WhatPlansHaveOfTheirOwnDecidesBetweenThem) {
  // A shared error of 20 % cancels. With 4 % of its own each, ln of the ratio has a deviation of 0.0566: 3.7 % apart
  // (ln 0.0363) is the normal probability of 0.642: 0.740; 10 % apart (0.0953) that of 1.684: 0.954.
  const std::vector<double> shared = errors("shared", 0.2);
  const auto plan = [&](double days, const std::string& key) {
    return drawn(cost(days, 1), times(shared, errors(key, 0.04)));
  };
  const auto close = probabilities_best({plan(10, "a"), plan(10.37, "b")}, Objective::time, {});
  EXPECT_NEAR(close[0], 0.740, 0.03);
  EXPECT_FALSE(verdict(close).winner);
  const auto far = probabilities_best({plan(10, "a"), plan(11, "b")}, Objective::time, {});
  EXPECT_NEAR(far[0], 0.954, 0.02);
  EXPECT_EQ(verdict(far).winner, 0u);
}

TEST(PlanRanking, ContendersAreTheFewestThatReachTheLevel) {
  const Verdict open = verdict({0.1, 0.45, 0.05, 0.4});
  EXPECT_FALSE(open.winner);
  EXPECT_THAT(open.contenders, ElementsAre(1, 3));  // 0.85
  EXPECT_EQ(verdict({0.1, 0.8, 0.1}).winner, 1u);
  EXPECT_THAT(verdict({0.2, 0.3, 0.0}).contenders, ElementsAre(1, 0));  // never 0.8: limits fail in half of the draws
  EXPECT_THAT(verdict({0.0, 0.0}).contenders, testing::IsEmpty());
  EXPECT_FALSE(verdict({}).winner);
}

TEST(PlanRanking, TheBestOfADrawIsWithinTheLimitsAndFits) {
  // Days of the first: 8, 10, 12, 14; of the second 11 in each. USD: 0.4 a day for the first, 1 for the second.
  PlanCost first = drawn(cost(10, 4), {0.8, 1, 1.2, 1.4}), second = drawn(cost(11, 11), {1, 1, 1, 1});
  const auto best = [&](const Limits& limits) { return probabilities_best({first, second}, Objective::time, limits); };
  EXPECT_THAT(best({}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(best({.days = 9}), ElementsAre(0.25, 0));
  EXPECT_THAT(best({.usd = 5}), ElementsAre(0.75, 0));
  EXPECT_EQ(probability_within(first, {.days = 13}), 0.75);
  EXPECT_EQ(probability_within(first, {.usd = 4}), 0.5);
  EXPECT_EQ(probability_within(second, {.usd = 4}), 0);
  EXPECT_FALSE(probability_within(cost(10, 4), {.days = 13}));
  first.time_draws[0] = std::numeric_limits<double>::infinity();  // it does not fit
  EXPECT_THAT(best({}), ElementsAre(0.25, 0.75));
}

// It fits in three draws, of 10, 12 and 14 days.
TEST(PlanRanking, ALimitHoldsInTheDrawsInWhichThePlanFits) {
  const double never = std::numeric_limits<double>::infinity();
  EXPECT_EQ(probability_within(drawn(cost(10, 4), {never, 1, 1.2, 1.4}), {.days = 13}), 2.0 / 3);
  EXPECT_FALSE(probability_within(drawn(cost(10, 4), {never, never}), {.days = 13}));
}

TEST(PlanRanking, OfTwoPlansTheOneThatFitsIsBetter) {
  const double never = std::numeric_limits<double>::infinity();
  const PlanCost first = drawn(cost(10, 1), {1, 1, never, never}), second = drawn(cost(10, 1), {1.1, never, 1, never});
  EXPECT_EQ(probability_better(first, second, Objective::time), 2.5 / 4);  // neither fits in the last draw
}

TEST(PlanRanking, WithoutDrawsNothingIsSaidOfProbabilities) {
  EXPECT_THAT(probabilities_best({cost(10, 1), drawn(cost(11, 1), {1})}, Objective::time, {}), testing::IsEmpty());
  EXPECT_FALSE(probability_better(cost(10, 1), drawn(cost(11, 1), {1}), Objective::time));
}

TEST(PlanRanking, CostOverSeveralSizesNeedsADeadline) {
  const std::vector<PlanCost> sizes = {cost(10, 9, 64), cost(20, 8, 32)};
  const std::vector<PlanCost> one = {cost(10, 9), cost(20, 8)};
  const Limits deadline{.days = 30, .usd = std::nullopt};
  EXPECT_TRUE(degenerate(sizes, Objective::cost, {}));
  EXPECT_TRUE(degenerate(sizes, Objective::gpu_hours, {}));
  EXPECT_FALSE(degenerate(sizes, Objective::cost, deadline));
  EXPECT_FALSE(degenerate(sizes, Objective::time, {}));
  EXPECT_FALSE(degenerate(one, Objective::cost, {}));
}

model::StepResult result(double time_s, double bubble_s, double peak) {
  model::StepResult made;
  made.step.time_s = time_s;
  made.step.bubble_s = bubble_s;
  made.step.breakdown = {{"GEMM", time_s - bubble_s}};
  made.memory.ranks = {{.peak_bytes = peak}};
  return made;
}

TEST(PlanRanking, TwinsHaveTheSameWorkTimeAndMemory) {
  const model::StepResult one = result(10, 1, 7e10);
  EXPECT_TRUE(are_twins(one, one));
  EXPECT_TRUE(are_twins(one, result(10 * (1 + 1e-12), 1, 7e10))) << "rounding";
  EXPECT_FALSE(are_twins(one, result(10.001, 1, 7e10)));
  EXPECT_FALSE(are_twins(one, result(10, 1.5, 7e10))) << "as long, with less work";
  EXPECT_FALSE(are_twins(one, result(10, 1, 6e10))) << "as long, with less memory";
  model::StepResult unknown = one;
  unknown.step.bubble_s.reset();
  EXPECT_FALSE(are_twins(one, unknown));
}

Inputs inputs(const std::string& cluster, const std::string& stack, Left left) {
  Inputs made;
  made.cluster.name = cluster;
  made.profile = model::Profile("profile", "", {}, {}, stack);
  made.left = left;
  return made;
}

std::map<std::string, double> variances(const Inputs& inputs) {
  std::map<std::string, double> found;
  for (const ErrorPart& part : step_errors(inputs)) found[part.key] += part.deviation * part.deviation;
  return found;
}

// Returns the variance of the parts that both have, with the same draw.
double shared(const Inputs& first, const Inputs& second) {
  double sum = 0;
  const auto others = variances(second);
  for (const auto& [key, variance] : variances(first))
    if (others.contains(key)) sum += variance;
  return sum;
}

double own(const Inputs& first, const Inputs& second) { return shared(first, first) - shared(first, second); }

TEST(PlanDraws, PartsAddUpToWhatIsLeft) {
  for (const Left& left : {Left{.common = 0.08, .own = 0.15}, Left{.common = 0.08, .own = 0.05}, Left{}})
    EXPECT_NEAR(shared(inputs("a", "stack", left), inputs("a", "stack", left)),
                left.common * left.common + left.own * left.own, 1e-12);
}

TEST(PlanDraws, PlansShareWhatTheyHaveInCommon) {
  const Left left{.common = 0.08, .own = 0.15};
  const Inputs plan = inputs("a", "stack", left);
  Inputs schedule = plan, layout = plan;
  schedule.plan.schedule.kind = "zb-h1";
  layout.plan.batch.micro_batch_size = 2;
  EXPECT_NEAR(own(plan, schedule), schedule_scatter * schedule_scatter, 1e-12);
  EXPECT_NEAR(own(plan, layout), layout_scatter * layout_scatter, 1e-12);
  // On other hardware half of common^2 is shared, and with another stack nothing is.
  EXPECT_NEAR(shared(plan, inputs("b", "stack", left)), 0.08 * 0.08 / 2, 1e-12);
  EXPECT_EQ(shared(plan, inputs("a", "other", left)), 0);
}

TEST(PlanDraws, PlansOfARunDifferByNoMoreThanPlansDo) {
  const Inputs plan = inputs("a", "stack", {.common = 0.08, .own = 0.05});
  Inputs layout = plan;
  layout.plan.batch.micro_batch_size = 2;
  EXPECT_NEAR(own(plan, layout), 0.05 * 0.05, 1e-12);
}

TEST(PlanQuestion, DurationsAreDays) {
  EXPECT_DOUBLE_EQ(parse_days("60d").value(), 60);
  EXPECT_DOUBLE_EQ(parse_days("36h").value(), 1.5);
  EXPECT_DOUBLE_EQ(parse_days("8w").value(), 56);
  EXPECT_DOUBLE_EQ(parse_days("90min").value(), 0.0625);
  EXPECT_DOUBLE_EQ(parse_days("0.5d").value(), 0.5);
}

TEST(PlanQuestion, ADurationNeedsAPositiveNumberAndAUnit) {
  for (const char* text : {"", "60", "d", "60 d", "-3d", "0d", "nand", "infd", "60days", "60m", "1e308w", "5e-324min"})
    expect_error(parse_days(text), ErrorKind::input, "--deadline", "60d");
}

TEST(PlanQuestion, Money) {
  EXPECT_DOUBLE_EQ(parse_usd("6e6").value(), 6e6);
  EXPECT_DOUBLE_EQ(parse_usd("6000000").value(), 6e6);
  EXPECT_DOUBLE_EQ(parse_usd("5.5M").value(), 5.5e6);
  EXPECT_DOUBLE_EQ(parse_usd("800k").value(), 8e5);
  EXPECT_DOUBLE_EQ(parse_usd("1B").value(), 1e9);
  for (const char* text : {"", "M", "-1", "0", "5 M", "5USD"}) EXPECT_FALSE(parse_usd(text)) << text;
}

TEST(PlanQuestion, Tokens) {
  EXPECT_DOUBLE_EQ(parse_tokens("5T").value(), 5e12);
  EXPECT_DOUBLE_EQ(parse_tokens("14.8T").value(), 14.8e12);
  EXPECT_DOUBLE_EQ(parse_tokens("300B").value(), 3e11);
  EXPECT_DOUBLE_EQ(parse_tokens("1e12").value(), 1e12);
  EXPECT_DOUBLE_EQ(parse_tokens("2000000").value(), 2e6);
  for (const char* text : {"", "T", "-1T", "0", "5 T", "5Tokens", "5t", "1e300T"})
    expect_error(parse_tokens(text), ErrorKind::input, "--tokens");
}

TEST(PlanQuestion, ObjectivesHaveNames) {
  for (const Objective objective : {Objective::time, Objective::cost, Objective::gpu_hours})
    EXPECT_EQ(parse_objective(to_string(objective)).value(), objective);
  expect_error(parse_objective("costs"), ErrorKind::input, "--objective", "did you mean 'cost'");
}

std::vector<std::string> words(const std::vector<ClusterChoice>& choices) {
  std::vector<std::string> result;
  for (const ClusterChoice& choice : choices)
    result.push_back(choice.cluster + " " + std::to_string(choice.gpus) + " " + choice.profile);
  return result;
}

TEST(PlanQuestion, EveryClusterWithEverySizeOnce) {
  EXPECT_THAT(words(cluster_choices({"a", "b:p", "a"}, {8, 16, 8}).value()),
              ElementsAre("a 8 ", "a 16 ", "b 8 p", "b 16 p"));
}

TEST(PlanQuestion, AClusterMayHaveASizeOfItsOwn) {
  EXPECT_THAT(words(cluster_choices({"a@512", "b@1024:p", "some@place/c.toml", "d@8:scaled:p"}, {}).value()),
              ElementsAre("a 512 ", "b 1024 p", "some@place/c.toml 0 ", "d 8 scaled:p"));
}

TEST(PlanQuestion, OwnSizesAgreeWithThoseOfAllClusters) {
  EXPECT_THAT(words(cluster_choices({"a@512", "b"}, {512, 1024}).value()), ElementsAre("a 512 ", "b 512 ", "b 1024 "));
  expect_error(cluster_choices({"a@256"}, {512, 1024}), ErrorKind::input, "--cluster",
               "a@256 contradicts --gpus 512,1024");
}

TEST(PlanQuestion, WhatIsNotGivenIsThePlans) {
  EXPECT_THAT(words(cluster_choices({}, {}).value()), ElementsAre(" 0 "));
}

TEST(PlanQuestion, AnOfferHasItsSizeAndItsPrice) {
  const auto choices =
      cluster_choices({}, {}, {"a:512@2.60", "some:place/b.toml:1024", "a:512@2", "a:512@2:own"}).value();
  ASSERT_THAT(words(choices), ElementsAre("a 512 ", "some:place/b.toml 1024 ", "a 512 ", "a 512 own"));
  EXPECT_EQ(choices[0].usd_per_gpu_hour, 2.6);
  EXPECT_TRUE(choices[0].offered);
  EXPECT_FALSE(choices[1].usd_per_gpu_hour);
  EXPECT_EQ(choices[2].usd_per_gpu_hour, 2);
  EXPECT_EQ(choices[3].usd_per_gpu_hour, 2);
}

TEST(PlanQuestion, AWrongOfferIsNamedWithWhatItLacks) {
  const std::pair<const char*, const char*> wrong[] = {{"h200-hgx", "it names no number of GPUs"},
                                                       {"h200-hgx@512", "it names no number of GPUs"},
                                                       {":512@2.60", "it names no cluster"},
                                                       {"h200-hgx:@2.60", "'' is no number of GPUs"},
                                                       {"h200-hgx:h200@2.60", "'h200' is no number of"},
                                                       {"h200-hgx:0@2.60", "'0' is no number of GPUs"},
                                                       {"h200-hgx:512@", "'' is no price above 0"},
                                                       {"h200-hgx:512@-1", "'-1' is no price above 0"},
                                                       {"h200-hgx:512@2,60", "'2,60' is no price above 0"},
                                                       {"h200-hgx:512@nan", "'nan' is no price above 0"},
                                                       {"h200-hgx:512@1e308", "'1e308' is more than 1000000 USD"},
                                                       {"h200-hgx:512@$2", "'$2' is no price above 0"},
                                                       {"h200-hgx:512@2:", "it names no profile"}};
  for (const auto& [text, why] : wrong) {
    const auto parsed = cluster_choices({}, {}, {text});
    expect_error(parsed, ErrorKind::input, "--offer", why);
    expect_error(parsed, ErrorKind::input, "--offer", "--offer h200-hgx:512@2.60");
  }
}

TEST(PlanQuestion, OffersTakeThePlaceOfClustersAndSizes) {
  for (const auto& parsed : {cluster_choices({"a"}, {}, {"a:512"}), cluster_choices({}, {512}, {"a:512"})})
    expect_error(parsed, ErrorKind::input, "--offer");
}

TEST(PlanQuestion, InvalidClusterOptions) {
  EXPECT_FALSE(cluster_choices({"a"}, {0}));
  EXPECT_FALSE(cluster_choices({"a"}, {-8}));
  EXPECT_FALSE(cluster_choices({""}, {8}));
  EXPECT_FALSE(cluster_choices({":p"}, {8}));
  EXPECT_FALSE(cluster_choices({"a:"}, {8}));
  for (const char* text : {"a@", "a@0", "a@-8", "a@many", "@8", "a@8:", "a@1.5"})
    EXPECT_FALSE(cluster_choices({text}, {})) << text;
}

}  // namespace
}  // namespace plumbline::sim
