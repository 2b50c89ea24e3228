#include "reports/text/serving/serving_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "reports/text/plan/plan_report.h"
#include "tests/support/example_result.h"
#include "tests/support/inputs.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

using testing::HasSubstr;

// A made-up deployment: 32 GPUs fill caches, 144 decode, at 50 ms a token.
struct ServingExample {
  sim::Inputs inputs;
  model::ServingResult result;
  std::vector<calibrate::ExampleFigure> published = {
      {"example", "output_tokens_per_s_per_gpu", "output of a GPU", 1850, "tokens/s", 1, "an average of a day",
       "a page"},
      {"example", "demand_gpus", "GPUs", 227, "GPUs", 1, "", "a page"},
      {"example", "usd_per_million_input_tokens", "not predicted", 1, "USD", 1, "", "a page"}};

  ServingExample() {
    inputs.plan.model.config = "models/example-moe.json";
    inputs.plan.cluster.topology = "h800-rail-fat-tree";
    inputs.plan.cluster.gpus = 176;
    inputs.plan.inference.given = true;
    inputs.plan.inference.engine = "an-engine";
    inputs.plan.inference.prefix_hit_rate = 0.5625;
    inputs.plan.inference.speculative_tokens = 1;
    inputs.plan.inference.max_tpot_s = 0.08;
    inputs.plan.inference.demand_output_tokens_per_day = 168e9;
    inputs.cluster.device.name = "H800";
    inputs.cluster.gpus_per_node = 8;
    result.concurrency = 12672;
    result.batch_per_gpu = 88;
    result.tpot_s = 0.05;
    result.ttft_unloaded_s = 1.2;
    result.ttft_s = 2.4;
    result.itl_worst_s = 0.09;
    result.output_tokens_per_s = 253440;
    result.output_tokens_per_s_per_gpu = 1440;
    result.output_tokens_per_s_per_node = 11520;
    result.tokens_per_step = 1.85;
    result.decode_step_s = 0.0925;
    result.kv_bytes_per_token = 70272;
    result.kv_capacity_tokens = 98e6;
    result.most_concurrency = 19728.9;
    result.bound_by = model::ServingBound::links;
    result.usd_per_million_output_tokens = 0.3858;
    result.prefill_gpus = 32;
    result.decode_gpus = 144;
    result.demand_gpus = 1814.9;
    result.demand_prefill_gpus = 764;
    result.demand_decode_gpus = 1051;
    model::ServingPool decode{.name = "decode", .gpus = 144, .instances = 1, .gpus_per_instance = 144};
    decode.expert = decode.attention_data = 144;
    decode.redundant_experts = 32;
    decode.step_s = 0.0925;
    decode.tokens_per_step = 25344;
    decode.batch_per_gpu = 88;
    decode.parts = {{"attention", 0.04, 0.01, model::ServingBound::kv},
                    {"dispatch", 0.0525, 0, model::ServingBound::links}};
    decode.weights_bytes = 24e9;
    decode.activations_bytes = 1e9;
    decode.reserve_bytes = 3e9;
    decode.kv_bytes = 30.85e9;
    decode.capacity_bytes = 80e9;
    decode.kv_capacity_tokens = 98e6;
    result.pools = {decode};
    result.frontier = {{144, 1, 0.02, 1.2, 50, 11.1, true},
                       {12672, 88, 0.05, 1.2, 1440, 0.3858, true},
                       {19728, 137, 0.09, 1.2, 1522, std::nullopt, false}};
    result.constants = {{"memory.bandwidth", 3e12, "B/s", model::Evidence::measured, "a table", 0.03}};
    result.notes = {"The engine's scheduler is hidden."};
  }
  ServingReport report() const { return {inputs, result, published}; }
  nlohmann::json json() const { return nlohmann::json::parse(serving_json(report())); }
};

ServingExample with_interval() {
  ServingExample example;
  model::ServingInterval interval;
  interval.tpot_s = {0.04, 0.05, 0.0625};
  interval.output_tokens_per_s_per_gpu = {1200, 1440, 1700};
  interval.parts = {{"engine", 0.7, "", std::nullopt}, {"GEMM shapes", 0.3, "", std::nullopt}};
  example.result.interval = interval;
  return example;
}

TEST(ServingReport, NamesTheEngineAsItIsOnTheDevice) {
  ServingExample example;
  const auto head = [&](const char* stack) {
    example.inputs.profile = model::Profile("example", "", {}, {}, stack);
    return serving_head(example.report())[1];
  };
  EXPECT_THAT(head("an-engine-old"), testing::StartsWith("engine an-engine as an-engine-old, weights fp8"));
  EXPECT_THAT(head("an-engine"), testing::StartsWith("engine an-engine, weights fp8"));
}

TEST(ServingReport, TheFirstTokenIsThatAtTheLoadAndOfARequestAlone) {
  ServingExample example = with_interval();
  example.result.interval->ttft_s = {2.0, 3.0, 4.0};
  const std::string text = serving_text(example.report(), {});
  EXPECT_THAT(text, testing::ContainsRegex("at this load +3.000 s +2.000 s +4.000 s"));
  EXPECT_THAT(text, testing::ContainsRegex("of a request alone .at least. +1.200 s"));
  const auto serving = example.json()["serving"];
  EXPECT_EQ(serving["ttft_s"], 2.4);
  EXPECT_DOUBLE_EQ(serving["middle"]["ttft_s"], 3);
  const double more = serving["middle"]["demand_gpus"].get<double>() / 1814.9;
  EXPECT_DOUBLE_EQ(serving["middle"]["demand_prefill_gpus"], 764 * more);
  EXPECT_DOUBLE_EQ(serving["middle"]["demand_decode_gpus"], 1051 * more);
  EXPECT_EQ(serving["interval"]["ttft_s"]["p90"], 4);
}

TEST(ServingReport, OneTokenHasNoTimePerOutputToken) {
  ServingExample example = with_interval();
  EXPECT_THAT(serving_text(example.report(), {}), HasSubstr("ITL, between tokens"));
  example.inputs.plan.inference.output_tokens = 1;
  const std::string text = serving_text(example.report(), {});
  for (const char* row : {"TPOT, time per output token", "tokens/s of a user", "ITL", "50.00 ms", "90.00 ms"})
    EXPECT_THAT(text, testing::Not(HasSubstr(row)));
  EXPECT_THAT(text, HasSubstr("A request ends with its first token"));
  EXPECT_THAT(serving_csv(example.report()), HasSubstr("\n144,1,,,1.2,50,11.1,true,"));
}

TEST(ServingReport, AMeasuredDeploymentIsHeldAgainstTheInterval) {
  ServingExample example = with_interval();
  ServingReport report = example.report();
  EXPECT_TRUE(nlohmann::json::parse(serving_json(report))["measured"].is_null());
  report.measured = sim::measured_deployment(example.result, sim::parse_measured_deployment("60ms").value()).value();
  EXPECT_THAT(serving_text(report, {}), HasSubstr("60ms is a TPOT of 60.00 ms. As predicted:"));
  const auto measured = nlohmann::json::parse(serving_json(report))["measured"];
  EXPECT_DOUBLE_EQ(measured["tpot_s"], 0.06);
  EXPECT_EQ(measured["verdict"], "as-predicted");
  EXPECT_EQ(measured["predicted_tpot_s"]["p50"], 0.05);
  EXPECT_EQ(measured["causes"][0]["cause"], "engine");
}

TEST(ServingReport, ALatentCacheIsNotDividedByTensorParallelism) {
  ServingExample example;
  example.inputs.architecture.attention = model::AttentionKind::multi_head_latent;
  EXPECT_THAT(serving_text(example.report(), {}), testing::Not(HasSubstr("latent")));
  example.result.pools[0].tensor = 8;
  EXPECT_THAT(serving_text(example.report(), {}), HasSubstr("each of 8 ranks holds"));
}

TEST(ServingReport, PublishedFiguresAreRatiosWithReasons) {
  const std::string text = serving_text(ServingExample().report(), {});
  EXPECT_THAT(text, HasSubstr("0.78"));  // 1440 / 1850
  EXPECT_THAT(text, HasSubstr("8.00"));  // 1814.9 / 227
  EXPECT_THAT(text, HasSubstr("output of a GPU: an average of a day."));
}

// Times a tenth longer in the middle, a twelfth fewer tokens, a fifth more dollars.
TEST(ServingReport, TheAnswerIsTheMiddleOfItsInterval) {
  ServingExample example = with_interval();
  example.result.interval->tpot_s = {0.052, 0.055, 0.0625};
  example.result.interval->output_tokens_per_s_per_gpu = {1200, 1320, 1400};
  example.result.interval->usd_per_million_output_tokens = {0.4, 0.46296, 0.5};
  const std::string text = serving_text(example.report(), {});
  EXPECT_THAT(text, testing::ContainsRegex("output token +55.00 ms +52.00 ms +62.50 ms"));
  EXPECT_THAT(text, testing::ContainsRegex("tokens/s of a GPU +1,320 +1,200 +1,400"));
  EXPECT_THAT(text, testing::ContainsRegex("output tokens/s of all GPUs +232,320"));  // 253440 / 12 * 11
  EXPECT_THAT(text, testing::ContainsRegex("for which there is a place +19,728"));
  EXPECT_THAT(text, testing::ContainsRegex("per million output tokens +.0.463"));
  EXPECT_THAT(text, testing::ContainsRegex("12,672 +88.00 +55.00 ms +18.18 +1,320 +.0.463"));  // in the frontier
  EXPECT_THAT(text, HasSubstr("1,980 GPUs"));                                                  // 1814.9 / 11 * 12
  EXPECT_THAT(text, HasSubstr("0.71"));                                                        // 1320 / 1850
  EXPECT_THAT(text, HasSubstr("A step of decode: 92.50 ms"));
  EXPECT_THAT(text, HasSubstr("the steps below: by components alone."));
  EXPECT_THAT(serving_text(ServingExample().report(), {}), testing::Not(HasSubstr("by components alone")));
  const auto serving = example.json()["serving"];
  EXPECT_EQ(serving["tpot_s"], 0.05);
  EXPECT_DOUBLE_EQ(serving["middle"]["tpot_s"], 0.055);
  EXPECT_DOUBLE_EQ(serving["middle"]["output_tokens_per_s"], 232320);
  EXPECT_EQ(serving["middle"]["usd_per_million_input_tokens"], nullptr);
  EXPECT_EQ(ServingExample().json()["serving"]["middle"], nullptr);
}

TEST(ServingReport, JsonHasTheKeysOfTheContract) {
  const auto json = with_interval().json();
  for (const char* key : {"plumbline", "serving", "memory", "provenance", "plan"})
    EXPECT_TRUE(json.contains(key)) << key;
  const auto& serving = json["serving"];
  for (const char* key :
       {"concurrency", "batch_per_gpu", "tpot_s", "ttft_unloaded_s", "output_tokens_per_s",
        "output_tokens_per_s_per_gpu", "input_tokens_per_s_per_gpu", "decode_step_s", "prefill_tokens_per_s_per_gpu",
        "kv_bytes_per_token", "kv_capacity_tokens", "prefill_gpus", "decode_gpus", "usd_per_million_output_tokens"})
    EXPECT_TRUE(serving[key].is_number()) << key;
  EXPECT_TRUE(serving["usd_per_million_input_tokens"].is_null());
  EXPECT_EQ(serving["bound_by"], "links");
  EXPECT_EQ(serving["interval"]["tpot_s"]["p90"], 0.0625);
  EXPECT_TRUE(serving["interval"]["ttft_unloaded_s"]["p10"].is_null());
  EXPECT_EQ(serving["pools"][0]["parts"][1]["bound_by"], "links");
  EXPECT_EQ(serving["frontier"][2]["within_limits"], false);
  EXPECT_DOUBLE_EQ(json["memory"]["stages"][0]["peak_bytes"], 58.85e9);
  EXPECT_EQ(json["memory"]["fits"], true);
  EXPECT_EQ(json["provenance"][0]["kind"], "measured");
  EXPECT_EQ(json["plan"]["inference"]["engine"], "an-engine");
}

TEST(ServingReport, StatesOfARequestAreInTheKeyValueCache) {
  ServingExample example;
  EXPECT_THAT(serving_text(example.report(), {}), Not(HasSubstr("states of a request")));
  example.result.state_bytes_per_request = 49082368;
  EXPECT_THAT(serving_text(example.report(), {}), HasSubstr("49,082,368"));
  EXPECT_EQ(example.json()["serving"]["state_bytes_per_request"], 49082368);
}

TEST(ServingReport, HasTheVerdictOfItsProbability) {
  ServingExample example;
  const auto memory = [&] { return example.json()["memory"]; };
  EXPECT_TRUE(memory()["fits_probability"].is_null());
  EXPECT_EQ(memory()["verdict"], "fits");
  EXPECT_THAT(serving_text(example.report(), {}), Not(HasSubstr("An instance that serves")));
  example.result.fits_probability = 0.9;
  EXPECT_EQ(memory()["fits_probability"], 0.9);
  EXPECT_EQ(memory()["verdict"], "at the edge");
  EXPECT_EQ(example.json()["fit"],
            (nlohmann::json{{"verdict", "edge"}, {"probability", 0.9}, {"free_bytes", 30.85e9}}));
  EXPECT_THAT(serving_text(example.report(), {}), HasSubstr("at least a request is at the edge, with 90.0 %"));
}

TEST(ServingReport, CsvIsTheFrontier) {
  const std::string csv = serving_csv(ServingExample().report());
  EXPECT_THAT(csv, HasSubstr("\n12672,88,0.05,20,1.2,1440,0.3858,true,0\n"));
  EXPECT_THAT(csv, HasSubstr(",1522,,false,0\n"));
}

TEST(ServingReport, PictureHasThePlanAndItsLimit) {
  const std::string svg = serving_svg(ServingExample().report());
  tests::expect_parts(svg, {"the plan: 12,672 requests", "limit: TPOT 80.00 ms", "beyond the limits"});
}

TEST(ServingReport, TheFrontierLeavesDominatedPointsOut) {
  ServingExample example;
  example.result.frontier[0].dominated = true;
  const std::string svg = serving_svg(example.report());
  EXPECT_THAT(svg, HasSubstr(R"(<circle class="s2 faint")"));
  EXPECT_THAT(svg, testing::ContainsRegex(R"(class="line s0" d="M[0-9. ]+"/>)")) << "a line of one point";
  EXPECT_EQ(example.json()["serving"]["frontier"][0]["dominated"], true);
}

TEST(ServingFigures, AreOfShippedPlansAndQuantitiesOfTheJson) {
  const auto json = ServingExample().json();
  const auto figures = calibrate::load_example_figures(tests::shipped("calibrate/published/serving/examples.csv"));
  ASSERT_TRUE(figures) << to_string(figures.error());
  for (const calibrate::ExampleFigure& figure : *figures) {
    EXPECT_TRUE(std::filesystem::exists(tests::shipped("examples/serving/" + figure.plan + ".toml"))) << figure.plan;
    EXPECT_TRUE(json["serving"].contains(figure.quantity)) << figure.quantity;
  }
}

}  // namespace
}  // namespace plumbline::reports

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
