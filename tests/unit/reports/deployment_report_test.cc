#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/text/plan/plan_report.h"
#include "tests/support/example_result.h"
#include "tests/support/text_parts.h"

namespace plumbline::sim {
namespace {

using nlohmann::json;
using testing::HasSubstr;

RankedDeployment deployment(double rate, bool disaggregated) {
  RankedDeployment made;
  made.plan = support::example_plan();
  made.plan.inference.given = true;
  made.plan.parallelism = {.tensor = 8};
  made.plan.inference.disaggregated = disaggregated;
  made.plan.inference.prefill.tensor = 4;
  made.plan.inference.decode.attention_data = 16;
  made.result.concurrency = 4096;
  made.result.tpot_s = 0.025;
  made.result.ttft_unloaded_s = made.result.ttft_s = 0.8;
  made.result.output_tokens_per_s_per_gpu = made.value = rate;
  made.result.usd_per_million_tokens_all_in = 0.31;
  made.result.prefill_gpus = 32;
  made.result.decode_gpus = 96;
  made.result.pools.resize(2);
  made.result.pools[0].kv_bytes = 3e9;
  made.result.pools[1].kv_bytes = 2e9;
  made.result.fits_probability = 0.9;
  return made;
}

DeploymentAnswer served() {
  DeploymentAnswer answer;
  answer.name = "example";
  answer.options.resize(2);
  for (DeploymentOption& option : answer.options) {
    option.on.inputs.plan = support::example_plan();
    option.on.inputs.profile = model::Profile("profile", "", {});
    option.on.gpus = 128;
    option.search.space = 1000;
  }
  answer.options[0].on.cluster = "near";
  answer.options[0].search.removed = {{"memory: weights alone exceed the GPU", 900, ""},
                                      {"inference.max_tpot_s", 100, "one request alone takes 30 ms"}};
  answer.options[1].on.cluster = "far";
  answer.options[1].search.best = {deployment(2000, true), deployment(1600, false)};
  answer.options[1].search.frontier = {{{128, 1, 0.01, 0.8, 100, 1.5, true}, deployment(1, false).plan},
                                       {{4096, 32, 0.025, 0.8, 2000, 0.31, true}, deployment(1, true).plan}};
  rank(answer);
  return answer;
}

TEST(DeploymentReport, ListsDeploymentsAndWhyAClusterHasNone) {
  const std::string text = reports::deployment_text(served(), false);
  tests::expect_parts(text,
                      {"example: 2 cluster options, for the most output tokens/s per GPU", "TP4", "TP8 DP16", "32:96"});
  EXPECT_THAT(text, HasSubstr("25.0 %"));  // the second has 1,600 of 2,000 tokens/s
  tests::expect_parts(text, {"near, 128 GPUs: no deployment: 100 inference.max_tpot_s",
                             "100 inference.max_tpot_s, for example: one request alone takes 30 ms",
                             "Interactivity against throughput on far, 128 GPUs"});
  EXPECT_THAT(text, testing::Not(HasSubstr("No deployment keeps the limits")));
}

TEST(DeploymentReport, JsonHasOptionsByRank) {
  const json answer = json::parse(reports::deployment_json(served()));
  EXPECT_EQ(answer["question"]["objective"], "throughput");
  EXPECT_EQ(answer["limits_met"], true);
  ASSERT_EQ(answer["sites"].size(), 2u);
  EXPECT_EQ(answer["sites"][0]["cluster"], "far");
  EXPECT_EQ(answer["sites"][0]["plans"][0]["deployment"], "prefill TP4, decode TP8 DP16");
  EXPECT_EQ(answer["sites"][0]["plans"][0]["serving"]["output_tokens_per_s_per_gpu"], 2000);
  const json fit = {{"verdict", "edge"}, {"probability", 0.9}, {"free_bytes", 2e9}};
  EXPECT_EQ(answer["sites"][0]["plans"][0]["fit"], fit) << "of the pool with the least space";
  EXPECT_EQ(answer["sites"][0]["frontier"].size(), 2u);
  EXPECT_EQ(answer["sites"][1]["no_plan_because"],
            "100 inference.max_tpot_s, for example: one request alone takes 30 ms");
  EXPECT_EQ(answer["plan"]["inference"]["disaggregated"], true);
}

TEST(DeploymentReport, DrawsTheFrontierOfEachCluster) {
  const std::string svg = reports::deployment_svg(served());
  EXPECT_THAT(svg, HasSubstr("far, 128 GPUs"));
  EXPECT_THAT(svg, HasSubstr("prefill TP4, decode TP8 DP16"));
}

}  // namespace
}  // namespace plumbline::sim
