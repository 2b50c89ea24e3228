#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "reports/text/plan/plan_report.h"
#include "sim/interval/hypercube.h"
#include "tests/support/example_result.h"
#include "tests/support/text_parts.h"

namespace plumbline::sim {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// The errors of a cluster are 10 %, shared by its plans; the price is known.
RankedPlan row(double step_s, double days, std::optional<double> usd, const std::string& cluster) {
  RankedPlan made;
  made.plan = support::example_plan();
  made.result = support::example_result();
  made.result.step.time_s = step_s;
  made.cost.gpus = 2048;
  made.cost.step_s = step_s;
  made.cost.days = days;
  made.cost.gpu_hours = days * 24 * 2048;
  made.cost.usd = usd;
  made.cost.time_draws = normal_column(cluster, 1, 1000);
  for (double& factor : made.cost.time_draws) factor = std::exp(0.1 * factor);
  made.cost.price_draws.assign(1000, 1);
  made.result.run = model::RunCost{.days = days, .gpu_hours = days * 24 * 2048, .cost_usd = usd};
  model::PredictionInterval& interval = made.result.interval.emplace();
  const auto around = [](double value) { return model::Quantiles{value * 0.88, value, value * 1.14}; };
  interval.time_s = around(step_s);
  interval.days = around(days);
  if (usd) interval.cost_usd = around(*usd);
  return made;
}

ClusterOption cluster_option(const std::string& cluster, std::vector<RankedPlan> rows) {
  ClusterOption made;
  made.cluster = cluster;
  made.gpus = 2048;
  made.inputs.profile = model::Profile(cluster + "-profile", "", {});
  made.search.space = 1000;
  made.search.evaluated = rows.empty() ? 0 : 10;
  made.search.removed = {{"layout: degrees that do not divide", 900, ""},
                         {"memory: states alone exceed the GPU", 90, "needs 95.3 GB of 84.9 GB: tensor 8"},
                         {"time: bounded above the best", 0, ""}};
  made.plans = std::move(rows);
  return made;
}

// "far" is faster, "near" cheaper, "empty" has no plan.
PlanAnswer example_answer() {
  PlanAnswer answer;
  answer.name = "example";
  answer.has_tokens = true;
  answer.assumptions = {"assumed: something"};
  answer.options.push_back(cluster_option("near", {row(10, 50, 4e6, "near")}));
  answer.options.push_back(cluster_option("empty", {}));
  answer.options.push_back(cluster_option("far", {row(8, 40, 5e6, "far"), row(8.04, 40.2, 5.1e6, "far")}));
  return answer;
}

TEST(PlanAnswer, RanksOptionsByTheirBestPlan) {
  PlanAnswer answer = example_answer();
  rank(answer);
  EXPECT_THAT(answer.order, ElementsAre(2, 0));
  EXPECT_THAT(answer.empty, ElementsAre(1));
  EXPECT_THAT(answer.dominated, ElementsAre(false, false));
  // ln(50 / 40) = 0.223 over 0.1 * sqrt(2) is the normal probability of 1.58: 0.943.
  EXPECT_NEAR(answer.best_with[0], 0.943, 0.02);
  EXPECT_EQ(answer.verdict.winner, 0u);
  EXPECT_THAT(answer.options[2].best_with, ElementsAre(testing::DoubleNear(1, 1e-9), 0));
  EXPECT_THAT(answer.options[0].best_with, testing::IsEmpty());  // nothing to compare its plan with
  PlanAnswer cost = example_answer();
  cost.objective = Objective::cost;
  rank(cost);
  EXPECT_THAT(cost.order, ElementsAre(0, 2));
  // 5 over 4 is the same ratio.
  EXPECT_EQ(cost.verdict.winner, 0u);
}

TEST(PlanAnswer, TheLastRuleThatRemovedAnything) {
  ClusterOption empty = cluster_option("empty", {});
  const std::string rule =
      "memory: states alone exceed the GPU (90 plans; closest: needs 95.3 GB of 84.9 GB: tensor 8)";
  EXPECT_EQ(reports::last_rule(empty.search), rule);
  EXPECT_EQ(reports::last_rule({}), "");
  EXPECT_EQ(reports::why_empty(empty), rule + "; more GPUs share what is sharded (--gpus, --offer)");
  empty.search.evaluated = 10;  // by the closed form they fit
  EXPECT_EQ(reports::why_empty(empty), "none of the 10 that were evaluated fits in memory");
  empty.search.complete = false;
  EXPECT_EQ(reports::why_empty(empty), "stopped before any was found");
}

TEST(PlanAnswer, ReportsHowFarTheLimitsAre) {
  PlanAnswer answer = example_answer();
  answer.limits.days = 32;
  answer.limits.usd = 3.2e6;
  rank(answer);
  EXPECT_EQ(reports::unmet_limits(answer),
            "time: 40.0 days on far, 2,048 GPUs is the least, 25.0 % over the limit of 32.0 days; cost: 4.000 M USD "
            "on near, 2,048 GPUs is the least, 25.0 % over the limit of 3.200 M USD");
  answer.limits.days = 10;
  EXPECT_THAT(reports::unmet_limits(answer), HasSubstr("is the least, 4.000 times the limit of 10.0 days"));
  PlanAnswer both = example_answer();
  both.limits.days = 45;
  both.limits.usd = 4.5e6;
  rank(both);
  EXPECT_EQ(reports::unmet_limits(both), "each limit alone is met by a cluster, both together by none");
}

TEST(PlanAnswer, ReasonsHaveTheirProbability) {
  const PlanAnswer answer = example_answer();
  const auto& rows = answer.options[2].plans;
  EXPECT_THAT(reports::reason_on_option(rows[0], rows[1]), HasSubstr("+0.5 %, worse with > 99 %: "));
  EXPECT_THAT(reports::reason_on_option(rows[0], answer.options[0].plans[0]), HasSubstr("+25.0 %, worse with 9"));
  RankedPlan undrawn = rows[1];
  undrawn.cost.time_draws.clear();
  EXPECT_THAT(reports::reason_on_option(rows[0], undrawn), HasSubstr("+0.5 %: "));
}

// By its components the second is 0.1 s faster, in the middle 0.2 s slower: 0.3 s are beyond the components.
TEST(PlanAnswer, ReasonsAddUpToTheDifferenceOfTheMiddles) {
  const RankedPlan above = row(8, 40, 5e6, "far");
  RankedPlan slower = row(8.2, 41, 5e6, "far");
  slower.result.step.time_s = 7.9;
  EXPECT_THAT(reports::reason_on_option(above, slower), HasSubstr(": beyond the components +0.30 s ("));
}

TEST(PlanAnswer, SmallAmountsOfMoneyHaveCents) {
  EXPECT_EQ(reports::usd_text(4.326), "4.33");
  EXPECT_EQ(reports::usd_text(579959.3), "579,959");
  EXPECT_EQ(reports::usd_text(2.5e6), "2.500 M");
  EXPECT_EQ(reports::usd_text(HUGE_VAL), "never");
}

TEST(PlanAnswer, SpansStateAUnitOnceUnlessItChanges) {
  EXPECT_EQ(reports::span("19.84 s", "25.10 s"), "19.84-25.10 s");
  EXPECT_EQ(reports::span("984.0 ms", "1.100 s"), "984.0 ms-1.100 s");
  EXPECT_EQ(reports::span("8.2", "9.1"), "8.2-9.1");
}

// The first is 1 % faster by prediction, which errors of 10 % hide: about as often as not it is the best.
TEST(PlanAnswer, NoWinnerIsNamedWithItsProbability) {
  PlanAnswer answer = example_answer();
  answer.options[0] = cluster_option("near", {row(8.08, 40.4, 5.05e6, "near")});
  answer.limits.days = 42;
  rank(answer);
  EXPECT_FALSE(answer.verdict.winner);
  const std::string text = reports::plan_text(answer, false);
  for (const char* part :
       {"Recommended is far, 2,048 GPUs with ", "8.000 s a step", "in time with", "the best with",
        "No winner: nothing has the shortest time with 80 % or more", "in other draws nothing is within", "best with"})
    EXPECT_THAT(tests::one_line(text), HasSubstr(part)) << text;
  const json verdict = json::parse(reports::plan_json(answer))["verdict"];
  EXPECT_EQ(verdict["winner"], nullptr);
  EXPECT_EQ(verdict["indistinguishable"], json({2}));
  EXPECT_EQ(verdict["ties"], json::array());
}

// 50 over 40 days is 25 % longer, 4 M over 5 M USD 20 % cheaper.
TEST(PlanAnswer, RecommendsTheWinnerWithTheNextBestAndWhatOverturnsIt) {
  PlanAnswer answer = example_answer();
  answer.options[2].campaign.emplace().finish = FinishBy{.days = 60, .tried = {}, .gpus = 1024};
  rank(answer);
  answer.break_evens.push_back({true,
                                {1},
                                {{BreakEvenQuantity::gemm_rate, 0.25, 0, std::nullopt},
                                 {BreakEvenQuantity::nic_bandwidth, 0.5, 0, std::nullopt},
                                 {BreakEvenQuantity::price, std::nullopt, 0, std::nullopt}}});
  const std::string plan = reports::plan_words(answer.best(0));
  EXPECT_THAT(
      reports::recommendation(answer),
      ElementsAre(testing::StartsWith("Recommended is far, 2,048 GPUs with " + plan +
                                      ": 40.0 days (35.2-45.6), 5.000 M USD (4.400-5.700 M) by its steps "
                                      "alone, fits in memory with > 99 %, the best with "),
                  testing::MatchesRegex("Next is near, 2,048 GPUs: 25.0 % longer, 20.0 % cheaper, the best "
                                        "with . %[.]"),
                  "The smallest change that overturns this: NIC bandwidth x0.50, then near, 2,048 GPUs.",
                  "Fewest GPUs with these degrees that fit and end within 60.0 days in nine of ten cases: 1,024."));
  const json object = json::parse(reports::plan_json(answer));
  EXPECT_EQ(object["recommendation"]["rank"], 1);
  EXPECT_EQ(object["recommendation"]["within_limits"], true);
  EXPECT_EQ(object["recommendation"]["words"].size(), 4u);
  EXPECT_EQ(object["sites"][0]["finish_by"]["gpus"], 1024);
  EXPECT_EQ(object["sites"][1]["finish_by"], nullptr);
  answer.options[2].campaign->finish->gpus = 2048;  // its own
  EXPECT_EQ(reports::recommendation(answer).back(),
            "No fewer GPUs with these degrees fit and end within 60.0 days in nine of ten cases.");
}

TEST(PlanAnswer, WithoutAnAnswerToTheDeadlineTheNearestSizeIsNamed) {
  PlanAnswer answer = example_answer();
  FinishBy& finish = answer.options[2].campaign.emplace().finish.emplace();
  finish.days = 20;
  finish.tried = {{.gpus = 2048, .in_time = 0.1},
                  {.gpus = 4096, .in_time = 0.77},
                  {.gpus = 8192, .in_time = 0.5},
                  {.gpus = 16384, .in_time = 1, .reason = "at the edge: fits with 60 %"}};
  rank(answer);
  EXPECT_EQ(reports::recommendation(answer).back(),
            "No number of GPUs that was tried with these degrees fits and ends within 20.0 days in nine of ten cases: "
            "4,096 do with 77 %.");
}

// "far" exceeds the budget by 5 / 3.9 - 1 = 28.2 %; "near" the deadline by 50 / 44 - 1 = 13.6 % and the budget by 4
// / 3.9
// - 1 = 2.6 %.
TEST(PlanAnswer, RecommendsTheNearestWhereNothingMeetsTheLimits) {
  PlanAnswer answer = example_answer();
  answer.limits = {.days = 44, .usd = 3.9e6};
  rank(answer);
  EXPECT_THAT(answer.order, ElementsAre(2, 0));
  EXPECT_EQ(answer.recommended, 1u);
  EXPECT_THAT(reports::plan_text(answer, false), HasSubstr("Plans on near, 2,048 GPUs\n"));
  const std::string first = reports::recommendation(answer).front();
  EXPECT_THAT(first, testing::StartsWith("Nothing meets the limits; nearest is near, 2,048 GPUs with "));
  EXPECT_THAT(first, HasSubstr(" It is 13.6 % longer than the deadline, 2.6 % above the budget."));
  EXPECT_THAT(reports::recommendation(answer)[1], HasSubstr(": 20.0 % shorter, 25.0 % dearer, over the limits"));
}

// By its steps "far" ends in 40 days, with failures in 43; "near" takes 50.
TEST(PlanAnswer, LimitsAreThoseOfTheTrainingWithFailures) {
  PlanAnswer answer = example_answer();
  answer.limits.days = 42;
  CampaignAnswer& training = answer.options[2].campaign.emplace();
  training.days = {42, 43, 44};
  training.run = model::RunCost{.days = 43};
  rank(answer);
  EXPECT_FALSE(answer.limits_met());
  EXPECT_EQ(reports::unmet_limits(answer),
            "time: 43.0 days on far, 2,048 GPUs is the least, 2.4 % over the limit of 42.0 days");
  const json object = json::parse(reports::plan_json(answer));
  EXPECT_EQ(object["verdict"]["limits_met"], false);
  EXPECT_EQ(object["recommendation"]["within_limits"], false);
  const std::string text = tests::one_line(reports::plan_text(answer, false));
  tests::expect_parts(text, {"Nothing meets the limits; nearest is far", "As predicted no plan meets the limits",
                             "over the limit: 1, 2"});
  training.days = {40, 41, 42};
  EXPECT_TRUE(answer.limits_met());
}

// By its steps "far" ends in 40 days for 5 M USD, with failures in 60 for 7.5 M; "near" takes 50 and 4 M. The rank,
// what the table has and what the next one differs by follow: 60 / 50 is 20 % longer, 7.5 / 4 is 87.5 % dearer.
TEST(PlanAnswer, RanksByTheTrainingWithFailures) {
  PlanAnswer answer = example_answer();
  rank(answer);
  EXPECT_THAT(answer.order, ElementsAre(2, 0));
  CampaignAnswer& training = answer.options[2].campaign.emplace();
  training.days = training.result.days = {52, 60, 68};
  training.run = model::RunCost{.days = 60, .gpu_hours = 60.0 * 24 * 2048};
  training.usd_per_day = 125e3;
  training.input.gpus = 2048;
  training.input.spare_nodes = 32;  // of 8 GPUs each: an eighth of the others
  answer.limits.days = 58;
  rank(answer);
  EXPECT_THAT(answer.order, ElementsAre(0, 2));
  EXPECT_THAT(answer.empty, ElementsAre(1));
  EXPECT_THAT(answer.dominated, ElementsAre(false, true));
  EXPECT_EQ(answer.verdict.winner, 0u);
  EXPECT_EQ(answer.recommended, 0u);
  EXPECT_DOUBLE_EQ(*measure(answer.taken(1), Objective::gpu_hours), 60 * 24 * 2048);
  // By the steps alone 40 days would be enough in nearly every case; of no campaign at all none ends in time.
  EXPECT_EQ(answer.probability_within(1, {.days = 58}), 0);
  EXPECT_THAT(reports::recommendation(answer)[1],
              testing::StartsWith("Next is far, 2,048 GPUs: 20.0 % longer, 87.5 % dearer, over the limits"));
  const std::string table = tests::one_line(reports::options_table(answer, {}));
  tests::expect_parts(table, {"2 far 2,048 60.0 7.500 M",
                              "Days, costs and probabilities: with failures, where these "
                              "are predicted.",
                              "40.0 days (35.2-45.6), 5.000 M USD (4.400-5.700 M) by its steps alone; best with",
                              "; 12.5 % more with its 32 spare nodes."});
}

// Where no campaign ends, the days of the steps alone must not recommend the cluster.
TEST(PlanAnswer, ATrainingThatNeverEndsIsTheLast) {
  PlanAnswer answer = example_answer();
  answer.options[2].campaign.emplace().result.never = "hardly a restart survives";
  answer.limits.days = 58;
  rank(answer);
  EXPECT_THAT(answer.order, ElementsAre(0, 2));
  EXPECT_EQ(answer.recommended, 0u);
  EXPECT_EQ(answer.verdict.winner, 0u);
  EXPECT_FALSE(answer.within_limits(1));
  EXPECT_EQ(answer.probability_within(1, {.days = 58}), 0);
  const std::string text = tests::one_line(reports::plan_text(answer, false)) + reports::plan_json(answer);
  EXPECT_THAT(text, testing::AllOf(HasSubstr("far, 2,048 GPUs: never ends"), testing::Not(HasSubstr(" inf"))));
  const json site = json::parse(reports::plan_json(answer))["sites"][1];
  EXPECT_EQ(site["probability_deadline"], 0);
  EXPECT_EQ(site["campaign"]["probability_deadline"], 0);
  EXPECT_EQ(answer.dominated.back(), std::nullopt);
  answer.options.erase(answer.options.begin(), answer.options.begin() + 2);
  answer.limits.usd = 1e6;
  rank(answer);
  EXPECT_EQ(reports::unmet_limits(answer), "no training ends");
}

// Of a campaign that was not run nothing is known, of one that never ends that it does not.
TEST(PlanAnswer, ATrainingIsKnownWhereItEndsOrNeverDoes) {
  ClusterOption option = cluster_option("far", {row(8, 40, 5e6, "far")});
  EXPECT_EQ(known_training(option), nullptr);
  CampaignAnswer& training = option.campaign.emplace();
  EXPECT_EQ(known_training(option), nullptr);
  EXPECT_EQ(taken_by(option).days, 40);
  training.result.never = "hardly a restart survives";
  EXPECT_EQ(known_training(option), &training);
  EXPECT_TRUE(std::isinf(*taken_by(option).days));
  training.days = {52, 60, 68};
  training.run = model::RunCost{.days = 60};
  EXPECT_EQ(known_training(option), &training);
  EXPECT_EQ(taken_by(option).days, 60);
}

// 50 days and 4 M USD against 150 and 10 M: the quotients, where a percentage would need three digits.
TEST(PlanAnswer, FromTwiceOnADifferenceIsAQuotient) {
  PlanAnswer answer = example_answer();
  CampaignAnswer& training = answer.options[2].campaign.emplace();
  training.days = training.result.days = {140, 150, 160};
  training.run = model::RunCost{.days = 150};
  training.usd_per_day = 1e7 / 150;
  rank(answer);
  EXPECT_THAT(reports::recommendation(answer)[1],
              testing::StartsWith("Next is far, 2,048 GPUs: 3.000 times as long, 2.500 times as dear"));
}

// In one wide row stand 40 days by the steps and 60 with failures, which the order is by.
TEST(PlanAnswer, AWideTableTellsTheStepsFromTheTraining) {
  PlanAnswer answer = example_answer();
  CampaignAnswer& training = answer.options[2].campaign.emplace();
  training.days = training.result.days = {52, 60, 68};
  training.run = model::RunCost{.days = 60, .gpu_hours = 60.0 * 24 * 2048};
  training.result.hours_between_failures = 64;
  rank(answer);
  ASSERT_EQ(setenv("PLUMBLINE_WIDE", "1", 1), 0);
  const std::string options = reports::options_table(answer, {}), plans = reports::plans_table(answer, {});
  training.result.never = "hardly a restart survives";
  training.run.reset();
  rank(answer);
  const std::string endless = reports::options_table(answer, {});
  unsetenv("PLUMBLINE_WIDE");
  tests::expect_parts(tests::one_line(options),
                      {"days by steps alone", "GPU-hours by steps alone", "USD by steps alone", "USD with failures",
                       " 20.0 % ", "Order, +, best with and probabilities of limits: with failures, where these are"});
  EXPECT_THAT(options, testing::ContainsRegex("far .* 40\\.0 .* 64\\.00 +60\\.0 +2\\.949 M +"));
  EXPECT_THAT(plans, testing::Not(HasSubstr("by the steps alone")));  // of "near", which has no campaign
  EXPECT_THAT(endless, testing::ContainsRegex("far .* 64\\.00 +never +- +-"));
}

TEST(PlanAnswer, APlanWithoutAnotherIsTheBestOfNothing) {
  PlanAnswer answer = example_answer();
  answer.options.erase(answer.options.begin() + 1, answer.options.end());
  rank(answer);
  const json site = json::parse(reports::plan_json(answer))["sites"][0];
  EXPECT_EQ(site["probability_best"], nullptr);
  EXPECT_EQ(site["plans"][0]["probability_best"], nullptr);
}

TEST(PlanAnswer, OffersOfOneClusterAndSizeAreNamedByTheirPrice) {
  PlanAnswer answer = example_answer();
  answer.options.push_back(answer.options[0]);
  answer.options[0].offered_usd = 2.6;
  answer.options[3].offered_usd = 1.95;
  EXPECT_EQ(reports::option_name(answer, answer.options[0]), "near, 2,048 GPUs at 2.60 USD");
  EXPECT_EQ(reports::option_name(answer, answer.options[3]), "near, 2,048 GPUs at 1.95 USD");
  EXPECT_EQ(reports::option_name(answer, answer.options[2]), "far, 2,048 GPUs");
  answer.options[0].inputs.cluster.gpus_per_node = 8;
  EXPECT_EQ(reports::reason_between(answer.options[0], answer.options[0], Objective::time),
            "the same GPUs, step and price");
  ClusterOption cheap = answer.options[0], dear = answer.options[0];
  cheap.inputs.plan.run.price_usd_per_gpu_hour = 2;
  dear.inputs.plan.run.price_usd_per_gpu_hour = 2.5;
  EXPECT_EQ(reports::reason_between(cheap, dear, Objective::time), "price 2.500 instead of 2.000 USD a GPU-hour");
  answer.options[2].gpus = 1;
  EXPECT_EQ(reports::option_name(answer, answer.options[2]), "far, 1 GPU");
}

// A table that continues below itself repeats its rule. Names of clusters and profiles are as long as shipped ones.
TEST(PlanAnswer, EachTableIsOneBlockOfEightyColumns) {
  PlanAnswer answer;
  answer.name = "example";
  answer.has_tokens = true;
  answer.options.push_back(
      cluster_option("h800-rail", {row(100.25, 1234.5, 123.4e6, "a"), row(101, 1235, 124e6, "a")}));
  answer.options.push_back(cluster_option("ethernet", {row(120.5, 1500, 150e6, "b")}));
  answer.options[0].cluster = "h800-rail-fat-tree";
  answer.options[0].inputs.profile = model::Profile("h800-datasheet", "", {});
  answer.options[0].gpus = 16384;
  answer.limits.days = 2000;
  rank(answer);
  for (const std::string& table : {reports::options_table(answer, {}), reports::plans_table(answer, {})}) {
    EXPECT_EQ(tests::count(table, "MFU"), 1u) << table;
    EXPECT_EQ(tests::count(table, "s/GPU"), 1u) << table;
    EXPECT_EQ(tests::count(table, "\n  -"), 1u) << table;
    EXPECT_THAT(table, testing::Not(testing::ContainsRegex("[^\n]{81}")));
  }
  EXPECT_THAT(reports::options_table(answer, {}), HasSubstr("front: 1; dominated: 2."));
}

TEST(PlanAnswer, ARowSaysHowManyTwinsItStandsFor) {
  PlanAnswer answer = example_answer();
  answer.options[2].plans[0].twins = 2;
  answer.options[2].plans[1].twins = 1;
  rank(answer);
  const std::string text = tests::one_line(reports::plans_table(answer, {}));
  EXPECT_THAT(text, HasSubstr("and 2 twins"));
  EXPECT_THAT(text, HasSubstr("and 1 twin "));
  const json plans = json::parse(reports::plan_json(answer))["sites"][0]["plans"];
  EXPECT_EQ(plans[0]["twins"], 2);
  EXPECT_EQ(plans[1]["twins"], 1);
  EXPECT_EQ(json::parse(reports::plan_json(answer))["sites"][1]["plans"][0]["twins"], 0);
}

TEST(PlanAnswer, AnOverrideTakesThePlaceOfItsAssumption) {
  Recipe recipe;
  recipe.defaults = DefaultRecipe{8e9, 8e9, 4096, 1024, 1.6e11};
  EXPECT_THAT(reports::assumptions(recipe, {}), testing::Contains(HasSubstr("160.0 B tokens in all")));
  EXPECT_THAT(reports::assumptions(recipe, {"run.tokens=5e12"}),
              testing::Not(testing::Contains(HasSubstr("tokens in all"))));
}

TEST(PlanAnswer, AnIncompleteOrEmptyAnswerIsMarked) {
  PlanAnswer answer = example_answer();
  answer.complete = false;
  rank(answer);
  EXPECT_THAT(reports::plan_text(answer, false), HasSubstr("INCOMPLETE"));
  PlanAnswer nothing;
  nothing.name = "nothing";
  nothing.options.push_back(cluster_option("empty", {}));
  rank(nothing);
  EXPECT_THAT(reports::plan_text(nothing, false), HasSubstr("empty, 2,048 GPUs: no plan: memory"));
  EXPECT_EQ(json::parse(reports::plan_json(nothing))["plan"], nullptr);
}

TEST(PlanAnswer, Json) {
  PlanAnswer answer = example_answer();
  rank(answer);
  answer.break_evens.push_back({true,
                                {1},
                                {{BreakEvenQuantity::nic_bandwidth, 0.5, 0, std::nullopt},
                                 {BreakEvenQuantity::price, std::nullopt, 0, std::nullopt}}});
  const json object = json::parse(reports::plan_json(answer));
  EXPECT_EQ(object["plumbline"]["schema"], 1);
  EXPECT_EQ(object["verdict"]["winner"], 1);
  EXPECT_EQ(object["sites"][0]["cluster"], "far");
  EXPECT_EQ(object["sites"][0]["rank"], 1);
  EXPECT_EQ(object["sites"][0]["plans"].size(), 2u);
  const json& first = object["sites"][0]["plans"][0];
  EXPECT_EQ(first["days"], 40);
  EXPECT_DOUBLE_EQ(first["interval"]["time_s"]["p90"].get<double>(), 8 * 1.14);
  EXPECT_DOUBLE_EQ(object["sites"][0]["interval"]["low"].get<double>(), 40 * 0.88);
  EXPECT_EQ(first["interval"]["fits_probability"], 1);
  EXPECT_NEAR(first["probability_best"].get<double>(), 1, 1e-9);
  EXPECT_EQ(first["probability_deadline"], nullptr);
  EXPECT_NEAR(object["sites"][0]["probability_best"].get<double>(), 0.943, 0.02);
  EXPECT_EQ(object["sites"][1]["dominated"], false);
  EXPECT_EQ(object["sites"][2]["rank"], nullptr);
  EXPECT_THAT(object["sites"][2]["no_plan_because"].get<std::string>(), HasSubstr("memory"));
  EXPECT_EQ(object["flips"][0]["factor"], 0.5);
  EXPECT_EQ(object["flips"][1]["factor"], nullptr);
  EXPECT_EQ(object["flips"][1]["then_better"], nullptr);
  EXPECT_EQ(object["plan"]["cluster"]["gpus"], 2048);
}

TEST(PlanAnswer, CsvHasARowForPlansAtTheEdge) {
  PlanAnswer answer = example_answer();
  answer.options[2].edge = {row(7.5, 37.5, 4.7e6, "far")};
  rank(answer);
  // The header, two plans and one at the edge of "far", the plan of "near", the reason of "empty".
  EXPECT_EQ(tests::count(reports::plan_csv(answer), "\n"), 6u);
}

TEST(PlanAnswer, PictureHasTheFrontAsRings) {
  PlanAnswer answer = example_answer();
  rank(answer);
  const std::string svg = reports::plan_svg(answer);
  for (const char* part : {"days against dollars", "far, 2,048 GPUs", "near, 2,048 GPUs"})
    EXPECT_THAT(svg, HasSubstr(part));
}

TEST(PlanAnswer, WithoutAPriceThereIsNoCost) {
  ClusterOption priceless = cluster_option("near", {});
  model::StepResult result = support::example_result();
  result.run = model::RunCost{.tokens = 1, .steps = 1, .days = 3, .gpu_hours = 4};
  const PlanCost cost = cost_of(priceless, result);
  EXPECT_EQ(cost.days, 3);
  EXPECT_FALSE(cost.usd);
}

}  // namespace
}  // namespace plumbline::sim
