#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/text/plan/plan_report.h"
#include "tests/support/example_result.h"

namespace plumbline::sim {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

RankedPlan row(double step_s, double days, std::optional<double> usd, double uncertainty, const std::string& errors) {
  RankedPlan made;
  made.plan = support::example_plan();
  made.result = support::example_result();
  made.result.step.time_s = step_s;
  made.cost.errors = errors;
  made.cost.gpus = 2048;
  made.cost.step_s = step_s;
  made.cost.days = days;
  made.cost.gpu_hours = days * 24 * 2048;
  made.cost.usd = made.cost.usd_low = made.cost.usd_high = usd;
  made.cost.uncertainty = uncertainty;
  return made;
}

ClusterOption cluster_option(const std::string& cluster, std::vector<RankedPlan> rows) {
  ClusterOption made;
  made.cluster = cluster;
  made.gpus = 2048;
  made.inputs.profile = model::Profile(cluster + "-profile", "", {});
  made.uncertainty = model::Parameter{"prediction.step_uncertainty", 0.1, "1", model::Evidence::measured, "a source"};
  made.search.space = 1000;
  made.search.evaluated = 10;
  made.search.removed = {{"layout: degrees that do not divide", 900, ""},
                         {"memory: states alone exceed the GPU", 90, "needs 95.3 GB of 84.9 GB: tensor 8"},
                         {"time: bounded above the best", 0, ""}};
  made.plans = std::move(rows);
  return made;
}

// "far" is faster, "near" cheaper, "empty" has no plan.
PlanAnswer example() {
  PlanAnswer answer;
  answer.name = "example";
  answer.has_tokens = true;
  answer.assumptions = {"assumed: something"};
  answer.options.push_back(cluster_option("near", {row(10, 50, 4e6, 0.1, "near")}));
  answer.options.push_back(cluster_option("empty", {}));
  answer.options.push_back(cluster_option("far", {row(8, 40, 5e6, 0.1, "far"), row(8.04, 40.2, 5.1e6, 0.1, "far")}));
  return answer;
}

TEST(PlanAnswer, RanksOptionsByTheirBestPlan) {
  PlanAnswer answer = example();
  rank(answer);
  EXPECT_THAT(answer.order, ElementsAre(2, 0));
  EXPECT_THAT(answer.empty, ElementsAre(1));
  EXPECT_THAT(answer.dominated, ElementsAre(false, false));
  // 40 / 0.9 = 44.4 is below 50 / 1.1 = 45.5.
  EXPECT_EQ(answer.verdict.winner, 0u);
  PlanAnswer cost = example();
  cost.objective = Objective::cost;
  rank(cost);
  EXPECT_THAT(cost.order, ElementsAre(0, 2));
  // 4 / 0.9 = 4.44 M is below 5 / 1.1 = 4.55 M.
  EXPECT_EQ(cost.verdict.winner, 0u);
}

TEST(PlanAnswer, TheLastRuleThatRemovedAnything) {
  const ClusterOption empty = cluster_option("empty", {});
  EXPECT_EQ(reports::last_rule(empty.search),
            "memory: states alone exceed the GPU (90 plans; closest: needs 95.3 GB of 84.9 GB: tensor 8)");
  EXPECT_EQ(reports::last_rule({}), "");
  EXPECT_EQ(reports::why_empty(ClusterOption{}), "not looked at");
}

TEST(PlanAnswer, ReportsHowFarTheLimitsAre) {
  PlanAnswer answer = example();
  answer.limits.days = 32;
  answer.limits.usd = 3.2e6;
  rank(answer);
  EXPECT_EQ(reports::unmet_limits(answer),
            "time: 40.00 days on far, 2,048 GPUs is the least, 25.0 % over the limit of 32.00 days; cost: 4.000 M USD "
            "on near, 2,048 GPUs is the least, 25.0 % over the limit of 3.200 M USD");
  PlanAnswer both = example();
  both.limits.days = 45;
  both.limits.usd = 4.5e6;
  rank(both);
  EXPECT_EQ(reports::unmet_limits(both), "each limit alone is met by a cluster, both together by none");
}

TEST(PlanAnswer, PlansOfOneClusterLessThanAPercentApartTie) {
  const PlanAnswer answer = example();
  const auto& rows = answer.options[2].plans;
  EXPECT_THAT(reports::reason_on_option(rows[0], rows[1]), HasSubstr("a tie (+0.5 %)"));
  EXPECT_THAT(reports::reason_on_option(rows[0], answer.options[0].plans[0]), Not(HasSubstr("tie")));
}

TEST(PlanAnswer, TextNamesClusterOptionsPlansAndTheChoice) {
  PlanAnswer answer = example();
  rank(answer);
  const std::string text = reports::plan_text(answer, false);
  for (const char* part : {"example: 3 cluster options, for the shortest time", "Clusters, each with its best plan",
                           "Plans on far, 2,048 GPUs", "far, 2,048 GPUs has the shortest time: sizes of one",
                           "empty, 2,048 GPUs: no plan: memory: states alone", "assumed: something."})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(PlanAnswer, AnIncompleteOrEmptyAnswerIsMarked) {
  PlanAnswer answer = example();
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
  PlanAnswer answer = example();
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
  EXPECT_EQ(object["sites"][0]["plans"][0]["days"], 40);
  EXPECT_EQ(object["sites"][1]["dominated"], false);
  EXPECT_EQ(object["sites"][2]["rank"], nullptr);
  EXPECT_THAT(object["sites"][2]["no_plan_because"].get<std::string>(), HasSubstr("memory"));
  EXPECT_EQ(object["flips"][0]["factor"], 0.5);
  EXPECT_EQ(object["flips"][1]["factor"], nullptr);
  EXPECT_EQ(object["flips"][1]["then_better"], nullptr);
  EXPECT_EQ(object["plan"]["cluster"]["gpus"], 2048);
}

TEST(PlanAnswer, PictureHasTheFrontAsRings) {
  PlanAnswer answer = example();
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
  EXPECT_EQ(cost.uncertainty, 0.1);
}

}  // namespace
}  // namespace plumbline::sim
