#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reports/text/whatif/whatif_report.h"
#include "tests/support/text_parts.h"

namespace plumbline::sim {
namespace {

using model::Evidence;

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
  EXPECT_EQ(find(usual_inputs(plan), "price of a GPU-hour")->settings[0].text, "1.6");
  EXPECT_EQ(find(usual_inputs(plan), "uneven experts")->settings.size(), 1U);
  EXPECT_THAT(find(usual_inputs(plan), "communication SMs")->settings[1].changes,
              testing::ElementsAre("overlap.communication_sms=24"));
}

}  // namespace
}  // namespace plumbline::sim
