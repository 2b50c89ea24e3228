#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "reports/text/whatif/whatif_report.h"
#include "tests/support/text_parts.h"

namespace plumbline::sim {
namespace {

using model::Evidence;
using tests::has;
using tests::one_line;

// Returns a point of 1,000 tokens in `seconds`, all in overlapped pairs of which `share` is exposed communication.
SweepPoint point_of(double seconds, double share) {
  SweepPoint point;
  point.result.step.time_s = seconds;
  point.result.step.tokens_per_s = 1000 / seconds;
  point.result.step.slots_mean_s = {0, 0, 0, 0, seconds};
  point.result.step.exposed_mean_s = {0, 0, 0, 0, share * seconds};
  point.result.step.breakdown = {{"GEMM", seconds / 2}};
  point.result.bound_s = point.result.flops_at_peak_s = 1;
  point.result.memory.peak_bytes = 50e9;
  point.result.memory.capacity_bytes = 80e9;
  return point;
}

SweepResult result_of(const std::vector<std::string>& over, std::vector<model::Result<SweepPoint>> points) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : over) axes.push_back(parse_axis(text).value());
  SweepResult result = sweep_result(SweepGrid::make(std::move(axes)).value(), Fidelity::step, {}, std::move(points));
  result.plan.model.config = "models/tiny.json";
  return result;
}

// Of six points along one key, 24 does not fit and 28 is infeasible.
SweepResult along_one_key() {
  SweepPoint large = point_of(1, 0.01);
  large.infeasible_reason = "does not fit: rank 0";
  large.result.memory.fits = false;
  model::Error impossible{model::ErrorKind::infeasible, "28 leave none", "--over", 0, "o.sms", ""};
  return result_of({"o.sms=8..28:4"}, {point_of(20, 0.10), point_of(10.05, 0.02), point_of(10, 0.01),
                                       point_of(10.2, 0.03), large, tl::unexpected(impossible)});
}

TEST(SweepResult, FindsTheBestFeasiblePointItsPlateauAndWhereCommunicationIsHidden) {
  const SweepResult result = along_one_key();
  EXPECT_EQ(result.best, 2u);  // the faster one does not fit
  ASSERT_EQ(result.lines.size(), 1u);
  EXPECT_EQ(result.lines[0].plateau, (Stretch{1, 2}));  // 10.05 is 0.5 % slower, 10.2 is 2 %
  EXPECT_EQ(result.lines[0].hidden, (std::vector<Stretch>{{1, 2}, {4, 4}}));
  const std::string text = reports::sweep_text(result, false);
  tests::expect_parts(text, {"Best: sms 16, a step of 10.00 s.", "plateau from 12 to 16", "at 8 it shows with 10.0 %",
                             "sms 28: o.sms: 28 leave none", "does not fit"});
}

TEST(SweepResult, JsonHoldsPointsOptimumAndPlateau) {
  const auto json = nlohmann::json::parse(reports::sweep_json(along_one_key()));
  ASSERT_EQ(json["points"].size(), 6u);
  EXPECT_EQ(json["points"][0]["values"]["o.sms"], 8);
  EXPECT_EQ(json["points"][0]["step"]["time_s"], 20.0);
  EXPECT_EQ(json["points"][4]["feasible"], false);
  EXPECT_EQ(json["points"][4]["reason"], "does not fit: rank 0");
  EXPECT_TRUE(json["points"][5]["step"].is_null());
  EXPECT_EQ(json["optimum"]["point"], 2);
  EXPECT_EQ(json["optimum"]["values"]["o.sms"], 16);
  EXPECT_EQ(json["plateau"], nlohmann::json::parse(R"({"from": 12, "to": 16, "points": 2})"));
  EXPECT_EQ(json["lines"][0]["communication_hidden"].size(), 2u);
  EXPECT_TRUE(json.contains("plan"));
}

// The components of the second take longer, but clusters run it faster.
TEST(SweepResult, PointsAreComparedByTheirMiddle) {
  SweepPoint first = point_of(10, 0), second = point_of(11, 0);
  first.result.interval = model::PredictionInterval{.time_s = {11, 12, 13}};
  second.result.interval = model::PredictionInterval{.time_s = {10.5, 11.5, 13}};
  const SweepResult result = result_of({"o.sms=1,2"}, {first, second});
  EXPECT_EQ(result.best, 1u);
  const std::string text = reports::sweep_text(result, false);
  EXPECT_TRUE(has(text, "Best: sms 2, a step of 11.50 s.")) << text;
  EXPECT_TRUE(has(text, "12.00 s")) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex(" step .* components +exposed"))) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("1 +12.00 s .* 10.00 s "))) << text;
  EXPECT_TRUE(has(one_line(text), "what follows \"components\" divides what these add up to.")) << text;
  const auto json = nlohmann::json::parse(reports::sweep_json(result));
  EXPECT_EQ(json["points"][0]["middle"]["time_s"], 12.0);
  EXPECT_EQ(json["points"][0]["step"]["time_s"], 10.0);
  EXPECT_EQ(json["optimum"]["middle_s"], 11.5);
  EXPECT_EQ(json["optimum"]["time_s"], 11.0);
}

TEST(SweepResult, WithoutIntervalsItIsSaidWhatTheStepsAre) {
  const SweepResult result = along_one_key();
  EXPECT_TRUE(has(one_line(reports::sweep_text(result, false)), "--interval shows them as clusters run them."));
  EXPECT_TRUE(nlohmann::json::parse(reports::sweep_json(result))["optimum"]["middle_s"].is_null());
}

TEST(SweepResult, CsvHasARowPerPointWithAllFields) {
  const std::string csv = reports::sweep_csv(along_one_key());
  EXPECT_TRUE(csv.starts_with("o.sms,feasible,best,step_time_s,")) << csv;
  EXPECT_TRUE(has(csv, "\n16,1,1,10,0.1,0.01,5,")) << csv;
  EXPECT_TRUE(has(csv, "\n28,0,0,,,,,,,,,,,,,o.sms: 28 leave none\n")) << csv;
  // Every row has as many commas as the header.
  std::size_t start = 0, expected = 0;
  for (std::size_t end = csv.find('\n'); end != std::string::npos; start = end + 1, end = csv.find('\n', start)) {
    const auto commas = static_cast<std::size_t>(std::count(csv.begin() + start, csv.begin() + end, ','));
    if (start == 0) expected = commas;
    EXPECT_EQ(commas, expected) << csv.substr(start, end - start);
  }
}

TEST(SweepResult, EveryCombinationOfTheOtherKeysHasItsLine) {
  const SweepResult result =
      result_of({"s.kind=a,b", "o.sms=1,2"}, {point_of(4, 0), point_of(3, 0), point_of(2, 0.5), point_of(5, 0.5)});
  const std::string text = one_line(reports::sweep_text(result, false));
  EXPECT_TRUE(has(
      text, "kind a: best at sms 2 with 3.000 s, plateau at 2 alone; communication is hidden in the pairs everywhere."))
      << text;
  EXPECT_TRUE(has(
      text, "kind b: best at sms 1 with 2.000 s, plateau at 1 alone; communication is hidden in the pairs nowhere."))
      << text;
  EXPECT_TRUE(has(reports::sweep_svg(result), ">kind a</text>"));
}

TEST(SweepResult, ThePictureMarksTheBestAndShadesItsPlateau) {
  const std::string svg = reports::sweep_svg(along_one_key());
  EXPECT_TRUE(has(svg, "best: 16, 10.00 s"));
  EXPECT_TRUE(has(svg, "class=\"band s0\""));
  for (const char* title : {"step time in s", "exposed communication in s", "GEMM time over the fastest", ">o.sms<"})
    EXPECT_TRUE(has(svg, title)) << title;
}

TEST(SweepResult, DifferentBatchesAreComparedByTokensPerSecond) {
  SweepPoint larger = point_of(15, 0);
  larger.result.step.tokens_per_s = 2000.0 / 15;  // twice the tokens in less than twice the time
  const SweepResult result = result_of({"b.size=1,2"}, {point_of(10, 0), larger});
  EXPECT_EQ(result.best, 1u);
  EXPECT_FALSE(result.same_tokens);
  EXPECT_TRUE(has(reports::sweep_text(result, false), "different numbers of tokens per step"));
}

TEST(SweepResult, WithoutAFeasiblePointThereIsNoBest) {
  const model::Error impossible{model::ErrorKind::infeasible, "never", "", 0, "", ""};
  const SweepResult result = result_of({"o.sms=1,2"}, {tl::unexpected(impossible), tl::unexpected(impossible)});
  EXPECT_FALSE(result.best);
  EXPECT_TRUE(has(reports::sweep_text(result, false), "No point is feasible."));
  EXPECT_TRUE(nlohmann::json::parse(reports::sweep_json(result))["optimum"].is_null());
  EXPECT_TRUE(has(reports::sweep_svg(result), "</svg>"));
}

// Returns a deployment with that TPOT and cost of a million output tokens with their prompts.
SweepPoint deployment_of(double tpot_s, double usd) {
  SweepPoint point;
  model::ServingResult& serving = point.serving.emplace();
  serving.tpot_s = tpot_s;
  serving.ttft_s = 0.8;
  serving.concurrency = 8;
  serving.most_concurrency = 8;
  serving.output_tokens_per_s_per_gpu = 500;
  serving.usd_per_million_output_tokens = usd / 2;
  serving.usd_per_million_tokens_all_in = usd;
  point.result.memory.peak_bytes = 50e9;
  point.result.memory.capacity_bytes = 80e9;
  return point;
}

SweepResult of_deployments_along_one_key() {
  SweepPoint slow = deployment_of(0.2, 0.25);
  slow.infeasible_reason = "200 ms are above inference.max_tpot_s = 0.1";
  return result_of({"inference.concurrency=1,8,64"}, {deployment_of(0.02, 2), deployment_of(0.04, 0.5), slow});
}

TEST(SweepResult, DeploymentsAreComparedByTheCostOfTheirTokens) {
  const SweepResult result = of_deployments_along_one_key();
  EXPECT_EQ(result.best, 1u);  // the cheaper one is over its limit
  const std::string text = reports::sweep_text(result, false);
  EXPECT_TRUE(std::regex_search(text, std::regex("8 +40.00 ms +800.0 ms +500.0 +0.250 +0.500 .*cheapest"))) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("64 +200.0 ms .*over the limit"))) << text;
  EXPECT_TRUE(has(one_line(text), "Cheapest: concurrency 8, $0.500 for a million output tokens with their prompts."))
      << text;
  EXPECT_TRUE(has(text, "64: 200 ms are above")) << text;
  EXPECT_FALSE(has(text, "hidden"));
}

TEST(SweepResult, DeploymentsWhoseRequestsWaitForAPlaceAreNamed) {
  SweepPoint full = deployment_of(0.04, 0.5);
  full.serving->concurrency = 64;
  const std::string text =
      reports::sweep_text(result_of({"inference.concurrency=8,64"}, {deployment_of(0.04, 1), full}), false);
  EXPECT_TRUE(std::regex_search(text, std::regex("64 +40.00 ms .*cheapest, some"))) << text;
  EXPECT_FALSE(std::regex_search(text, std::regex("\\n +8 +40.00 ms .*some wait"))) << text;
  EXPECT_TRUE(has(one_line(text), "Where some wait, more requests are in flight than have a place")) << text;
  EXPECT_FALSE(has(reports::sweep_text(of_deployments_along_one_key(), false), "wait"));
}

// Of one request a thousand tokens take 10 s of a GPU, of eight 2 s, 0.5 of them on the host.
TEST(SweepResult, DeploymentsStateWhatBindsAndWhatChanges) {
  using Parts = std::vector<model::ServingPart>;
  const auto with = [](double tpot_s, double usd, double rate, model::ServingBound bound, Parts parts) {
    SweepPoint point = deployment_of(tpot_s, usd);
    point.serving->output_tokens_per_s_per_gpu = rate;
    point.serving->bound_by = bound;
    point.serving->pools.emplace_back().parts = std::move(parts);
    return point;
  };
  using enum model::ServingBound;
  const SweepPoint one = with(0.02, 2, 100, weights, {{"MLP", 0.02, 0, weights}});
  const SweepPoint eight = with(0.04, 0.5, 500, compute, {{"MLP", 0.03, 0, compute}, {"host", 0.01, 0, host}});
  const std::string along =
      one_line(reports::sweep_text(result_of({"inference.concurrency=1,8,9"}, {one, eight, eight}), false));
  EXPECT_TRUE(has(along, "What binds: weights at 1, compute from 8 to 9.")) << along;
  const char* const change = "a thousand output tokens take 8.000 s less GPU time: MLP -8.50 s (host +0.50 s).";
  EXPECT_TRUE(has(along, std::string("From concurrency 1 to concurrency 8 ").append(change))) << along;
  EXPECT_FALSE(has(along, "From concurrency 8")) << "nothing changes";
  const std::string longer =
      one_line(reports::sweep_text(result_of({"inference.concurrency=1,2,8"}, {one, one, eight}), false));
  EXPECT_TRUE(has(longer, std::string("From concurrency 1 to concurrency 8 ").append(change)))
      << "of the ends: " << longer;
  const std::string engines =
      one_line(reports::sweep_text(result_of({"inference.engine=vllm,sglang"}, {one, eight}), false));
  EXPECT_TRUE(has(engines, std::string("From engine vllm to engine sglang ").append(change))) << engines;
}

TEST(SweepResult, JsonAndCsvOfDeploymentsHoldTheirQuantities) {
  const SweepResult result = of_deployments_along_one_key();
  const auto json = nlohmann::json::parse(reports::sweep_json(result));
  EXPECT_TRUE(json["points"][0]["step"].is_null());
  EXPECT_EQ(json["points"][0]["serving"]["tpot_s"], 0.02);
  EXPECT_EQ(json["points"][2]["feasible"], false);
  EXPECT_EQ(json["optimum"]["usd_per_million_tokens_all_in"], 0.5);
  EXPECT_TRUE(json["optimum"]["time_s"].is_null());
  const std::string csv = reports::sweep_csv(result);
  EXPECT_TRUE(csv.starts_with("inference.concurrency,feasible,best,concurrency,")) << csv;
  EXPECT_TRUE(has(csv, "\n8,1,1,")) << csv;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
  EXPECT_TRUE(has(reports::sweep_svg(result), "TTFT at load in s"));
}

SweepPoint point_of(double seconds) {
  SweepPoint point;
  point.result.step.time_s = seconds;
  point.result.run = model::RunCost{};
  point.result.run->cost_usd = 1000 * seconds;
  return point;
}

TornadoInput input_named(const std::string& name, std::size_t settings) {
  TornadoInput input{name, name, {}};
  for (std::size_t i = 0; i < settings; ++i)
    input.settings.push_back({std::to_string(i), {name + "=" + std::to_string(i)}});
  return input;
}

model::Error infeasible() { return {model::ErrorKind::infeasible, "cannot be", "", 0, "narrow", ""}; }

// The plan takes ten seconds; "wide" spans 9 to 12, "narrow" 10 to 10.5 with one infeasible setting, "none" nothing.
TornadoResult example_tornado() {
  return tornado_result(Fidelity::step, {input_named("narrow", 2), input_named("none", 1), input_named("wide", 3)},
                        {point_of(10), point_of(10.5), tl::unexpected(infeasible()), point_of(10), point_of(11),
                         point_of(9), point_of(12)});
}

TEST(Tornado, InputsAreSortedByWhatTheyMove) {
  const TornadoResult result = example_tornado();
  ASSERT_EQ(result.rows.size(), 3U);
  EXPECT_EQ(result.rows[0].input.name, "wide");
  EXPECT_EQ(result.rows[1].input.name, "narrow");
  const TornadoSpan& wide = result.rows[0].spans[0].value();
  EXPECT_DOUBLE_EQ(wide.least, 9);
  EXPECT_DOUBLE_EQ(wide.most, 12);
  EXPECT_EQ(wide.least_setting, 1U);
  EXPECT_EQ(wide.most_setting, 2U);
  EXPECT_DOUBLE_EQ(result.rows[0].spans[1].value().width(), 3000);
  EXPECT_EQ(result.by_width(0).size(), 2U);
}

// The unchanged plan is one of the ends where no setting is beyond it.
TEST(Tornado, AnInfeasibleSettingDoesNotCount) {
  const TornadoSpan narrow = example_tornado().rows[1].spans[0].value();
  EXPECT_DOUBLE_EQ(narrow.least, 10);
  EXPECT_EQ(narrow.least_setting, std::nullopt);
  EXPECT_EQ(narrow.most_setting, 0U);
}

TEST(Tornado, WithoutARunThereIsNoCost) {
  SweepPoint base = point_of(10), other = point_of(11);
  base.result.run.reset(), other.result.run.reset();
  const TornadoResult result = tornado_result(Fidelity::step, {input_named("a", 1)}, {base, other});
  EXPECT_FALSE(result.base[1]);
  EXPECT_FALSE(result.rows[0].spans[1]);
  EXPECT_THAT(reports::tornado_text(result, false), testing::HasSubstr("No cost: it takes run.tokens"));
}

TEST(Tornado, TextNamesEndsReasonsAndWhatHasNoEffect) {
  const std::string text = reports::tornado_text(example_tornado(), false);
  tests::expect_parts(text, {"wide    9.000 s         1  12.00 s   2  30.0 %      ----|++++++++",
                             "Without effect: none.", "narrow 1: narrow: cannot be"});
}

TEST(Tornado, JsonHoldsEverySetting) {
  const auto json = nlohmann::json::parse(reports::tornado_json(example_tornado()));
  EXPECT_EQ(json["tornado"]["base"]["step.time_s"], 10);
  EXPECT_EQ(json["inputs"][0]["width"]["step.time_s"], 3);
  EXPECT_EQ(json["inputs"][0]["settings"][1]["set"][0], "wide=1");
  EXPECT_TRUE(json["inputs"][1]["settings"][1]["step.time_s"].is_null());
  EXPECT_EQ(json["inputs"][1]["settings"][1]["feasible"], false);
}

TEST(Tornado, OfADeploymentHasItsTimesAndCosts) {
  const auto of = [](double tpot_s, double usd) {
    SweepPoint point;
    point.serving.emplace().tpot_s = tpot_s;
    point.serving->usd_per_million_tokens_all_in = usd;
    return point;
  };
  const TornadoResult result =
      tornado_result(Fidelity::step, {input_named("skew", 2)}, {of(0.05, 2), of(0.04, 1.5), of(0.06, 3)});
  const std::string text = reports::tornado_text(result, false);
  EXPECT_THAT(text, testing::HasSubstr("TPOT, 50.00 ms as it is"));
  EXPECT_THAT(text, testing::HasSubstr("USD per million output tokens, with prompts, $2.000 as it is"));
  const auto json = nlohmann::json::parse(reports::tornado_json(result));
  EXPECT_EQ(json["tornado"]["base"]["serving.tpot_s"], 0.05);
  EXPECT_EQ(json["inputs"][0]["settings"][1]["serving.usd_per_million_tokens_all_in"], 3);
}

Inputs inputs() {
  Inputs inputs;
  inputs.plan.cluster.gpus = inputs.cluster.gpus = 16;
  inputs.cluster.gpus_per_node = 8;
  inputs.cluster.nic_bandwidth = model::BytesPerSecond(50e9);
  inputs.cluster.parameters = {{"node.nic_bandwidth", 400, "Gb/s", Evidence::datasheet, "s", std::nullopt}};
  inputs.profile = model::Profile("p", "",
                                  {{"gemm.fp8.k_time", 3, "ns", Evidence::fitted, "s", 0.02},
                                   {"gemm.bf16.k_time", 5, "ns", Evidence::assumed, "s", std::nullopt},
                                   {"kernel.launch_gap", 2, "us", Evidence::assumed, "s", 2.0},
                                   {"exchange.notify", 20, "us", Evidence::assumed, "s", std::nullopt}});
  return inputs;
}

const TornadoInput* find(const std::vector<TornadoInput>& inputs, std::string_view name) {
  const auto found = std::ranges::find(inputs, name, &TornadoInput::name);
  return found == inputs.end() ? nullptr : &*found;
}

TEST(TornadoInputs, StatedUncertaintiesElseTwentyPercent) {
  const auto found = usual_inputs(inputs());
  const TornadoInput* gemm = find(found, "GEMM time");
  ASSERT_NE(gemm, nullptr);
  EXPECT_EQ(gemm->settings[0].text, "-2 to 20 %");
  EXPECT_THAT(gemm->settings[0].changes,
              testing::UnorderedElementsAre("profile.gemm.fp8.k_time=2.94", "profile.gemm.bf16.k_time=4"));
  EXPECT_THAT(gemm->settings[1].changes,
              testing::UnorderedElementsAre("profile.gemm.fp8.k_time=3.06", "profile.gemm.bf16.k_time=6"));
  const TornadoInput* nic = find(found, "NIC bandwidth");
  ASSERT_NE(nic, nullptr);
  EXPECT_THAT(nic->settings[0].changes, testing::ElementsAre("topology.node.nic_bandwidth=320"));
}

TEST(TornadoInputs, NothingFallsToZero) {
  const auto found = usual_inputs(inputs());
  EXPECT_EQ(find(found, "launch gap")->settings[0].text, "-99 %");
  EXPECT_EQ(find(found, "launch gap")->settings[1].text, "+200 %");
}

TEST(TornadoInputs, OnlyWhatThePlanHas) {
  Inputs plan = inputs();
  EXPECT_EQ(find(usual_inputs(plan), "barrier of expert ranks"), nullptr);
  EXPECT_EQ(find(usual_inputs(plan), "price of a GPU-hour"), nullptr);
  EXPECT_EQ(find(usual_inputs(plan), "communication SMs"), nullptr);
  plan.plan.parallelism.expert = 8;
  plan.plan.run.tokens = 1e12;
  plan.plan.run.price_usd_per_gpu_hour = 2;
  plan.plan.overlap.communication_sms = 20;
  EXPECT_NE(find(usual_inputs(plan), "barrier of expert ranks"), nullptr);
  EXPECT_NE(find(usual_inputs(plan), "price of a GPU-hour"), nullptr);
  EXPECT_EQ(find(usual_inputs(plan), "price of a GPU-hour")->settings[0].text, "-20 %");
  EXPECT_THAT(find(usual_inputs(plan), "price of a GPU-hour")->settings[0].changes,
              testing::ElementsAre("run.price_usd_per_gpu_hour=1.6"));
  EXPECT_EQ(find(usual_inputs(plan), "uneven experts")->settings.size(), 1U);
  EXPECT_THAT(find(usual_inputs(plan), "communication SMs")->settings[1].changes,
              testing::ElementsAre("overlap.communication_sms=24"));
}

}  // namespace
}  // namespace plumbline::sim
