// Sweeps, tornados and solutions of deployments.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>

#include "sim/serving/serving.h"
#include "sim/whatif/solve_plan.h"
#include "sim/whatif/sweep.h"
#include "sim/whatif/tornado.h"
#include "tests/support/serving_inputs.h"

namespace plumbline::sim {
namespace {

using Changes = std::vector<std::string>;

model::Result<Inputs> node_with(const Changes& changes) {
  return tests::serving_inputs(tests::llama_node, "h100", changes);
}

Changes requests(std::int64_t concurrency) { return {fmt::format("inference.concurrency={}", concurrency)}; }

model::ServingResult served(const Changes& changes) {
  const Inputs inputs = node_with(changes).value();
  return ServingPredictor(inputs).predict(inputs.plan).value();
}

TEST(DeploymentSweep, PointsAreThoseOfTheServingPredictor) {
  const std::vector<std::int64_t> concurrencies = {1, 16, 64, 16};
  const auto inputs = [&](std::size_t point) { return node_with(requests(concurrencies[point])); };
  const auto points = sweep(concurrencies.size(), inputs, {.threads = 2}).value();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const model::ServingResult alone = served(requests(concurrencies[i]));
    ASSERT_TRUE(points[i] && points[i]->serving);
    EXPECT_EQ(points[i]->serving->tpot_s, alone.tpot_s);
    EXPECT_EQ(points[i]->serving->ttft_s, alone.ttft_s);
    EXPECT_EQ(points[i]->serving->output_tokens_per_s_per_gpu, alone.output_tokens_per_s_per_gpu);
    EXPECT_FALSE(points[i]->serving->interval);
    EXPECT_TRUE(feasible(points[i]));
  }
}

// A point that drafts with a model has that model, whatever the points before it drafted with.
TEST(DeploymentSweep, PointsHaveDraftsOfTheirOwn) {
  const auto drafted = [](std::size_t point) {
    constexpr std::array<const char*, 3> drafts = {"eagle", "models/llama-3-8b.json", "models/llama-3-70b.json"};
    Inputs inputs =
        node_with({"inference.speculative_tokens=2", fmt::format("inference.draft=\"{}\"", drafts[point])}).value();
    if (point > 0)
      inputs.draft = std::make_shared<const model::Architecture>(
          model::load_architecture(tests::shipped(fmt::format("examples/{}", drafts[point]))).value());
    return model::Result<Inputs>(std::move(inputs));
  };
  const auto points = sweep(3, drafted, {.threads = 1}).value();
  for (std::size_t i = 0; i < points.size(); ++i) {
    ASSERT_TRUE(points[i]) << to_string(points[i].error());
    const Inputs inputs = drafted(i).value();
    EXPECT_EQ(points[i]->serving->tpot_s, ServingPredictor(inputs).predict(inputs.plan)->tpot_s) << i;
  }
  EXPECT_GT(points[2]->serving->tpot_s, points[1]->serving->tpot_s);
}

TEST(DeploymentSweep, IntervalsAreThoseOfTheDeployment) {
  const auto points =
      sweep(1, [](std::size_t) { return node_with(requests(32)); }, {.intervals = true, .threads = 1}).value();
  ASSERT_TRUE(points[0] && points[0]->serving->interval);
  const model::Quantiles& tpot = *points[0]->serving->interval->tpot_s;
  EXPECT_LT(tpot.p10, tpot.p50);
  EXPECT_LT(tpot.p50, tpot.p90);
}

TEST(DeploymentSweep, APointOverItsLimitIsNotFeasible) {
  const std::string limit = fmt::format("inference.max_tpot_s={}", served(requests(8)).tpot_s);
  const auto inputs = [&](std::size_t point) {
    return node_with({fmt::format("inference.concurrency={}", point == 0 ? 1 : 256), limit});
  };
  const auto points = sweep(2, inputs, {.threads = 1}).value();
  EXPECT_TRUE(feasible(points[0]));
  EXPECT_FALSE(feasible(points[1]));
  EXPECT_THAT(reason(points[1]), testing::HasSubstr("inference.max_tpot_s"));
}

// More requests share the weights' way through the memory, so that tokens get cheaper.
TEST(DeploymentSweep, TheBestHasTheCheapestTokens) {
  auto grid = SweepGrid::make({parse_axis("inference.concurrency=1,8,64").value()}).value();
  const SweepResult result = sweep(std::move(grid),
                                   [](const Changes& changes) {
                                     Changes all = changes;
                                     all.emplace_back("run.price_usd_per_gpu_hour=2.0");
                                     return node_with(all);
                                   },
                                   {}, {.threads = 1})
                                 .value();
  EXPECT_TRUE(of_deployments(result));
  EXPECT_TRUE(result.priced);
  EXPECT_EQ(result.best, 2U);
  // Eight GPUs at 2 USD an hour over the rate of their output tokens.
  const double rate = served(requests(64)).output_tokens_per_s;
  EXPECT_NEAR(*cost(result, 2), 8 * 2.0 / (rate * 3600) * 1e6, 1e-9);
}

// What `plan -o` writes of a deployment.
TEST(DeploymentFile, HasWhatServingDependsOn) {
  const Inputs inputs = tests::serving_inputs(tests::deepseek_decode_unit, "h800",
                                              {"run.price_usd_per_gpu_hour=2.0", "overlap.communication_sms=24"});
  const std::string text = model::deployment_toml(inputs.plan);
  for (const char* section : {"[inference]", "[model]", "[parallelism]", "price_usd_per_gpu_hour = 2"})
    EXPECT_THAT(text, testing::HasSubstr(section));
  for (const char* trains : {"[optimizer]", "[recompute]", "[schedule]", "[batch]", "[precision]", "zero_stage"})
    EXPECT_THAT(text, testing::Not(testing::HasSubstr(trains)));
  const Inputs again = tests::serving_inputs(text, "h800");
  const model::ServingResult first = ServingPredictor(inputs).predict(inputs.plan).value(),
                             second = ServingPredictor(again).predict(again.plan).value();
  EXPECT_EQ(first.tpot_s, second.tpot_s);
  EXPECT_EQ(first.ttft_s, second.ttft_s);
  EXPECT_EQ(first.usd_per_million_tokens_all_in, second.usd_per_million_tokens_all_in);
}

TEST(DeploymentTornado, VariesRequestsAndPrice) {
  const auto changed = [](const Changes& changes) {
    Changes all = changes;
    if (changes.empty() || !changes.front().starts_with("run.")) all.emplace_back("run.price_usd_per_gpu_hour=2.0");
    return node_with(all);
  };
  const TornadoResult result =
      tornado(parse_inputs({"inference.concurrency=32,128", "run.price_usd_per_gpu_hour=1,4"}).value(), changed,
              {.threads = 1})
          .value();
  EXPECT_EQ(result.metrics, deployment_metrics);
  const auto by_tpot = result.by_width(0), by_cost = result.by_width(1);
  ASSERT_EQ(by_tpot.size(), 1U);  // a price changes no time
  EXPECT_EQ(by_tpot[0]->input.key, "inference.concurrency");
  ASSERT_EQ(by_cost.size(), 2U);
  const TornadoSpan& price = *by_cost[0]->spans[1];
  EXPECT_EQ(by_cost[0]->input.key, "run.price_usd_per_gpu_hour");
  EXPECT_NEAR(price.most / price.least, 4, 1e-9);
}

TEST(DeploymentTornado, UsualInputsAreThoseOfServing) {
  const std::vector<TornadoInput> inputs = usual_inputs(node_with(requests(64)).value());
  std::vector<std::string> keys;
  for (const TornadoInput& input : inputs) keys.push_back(input.key);
  EXPECT_THAT(keys, testing::IsSupersetOf({"inference.concurrency", "inference.input_tokens", "inference.output_tokens",
                                           "profile.cached_attention.*.bandwidth"}));
  EXPECT_THAT(keys, testing::Not(testing::Contains("run.tokens")));
}

TEST(DeploymentSolve, FindsTheRequestsOfATimePerToken) {
  const double target = (served(requests(40)).tpot_s + served(requests(41)).tpot_s) / 2;
  const SolveResult result =
      solve(
          "inference.concurrency", std::nullopt,
          {"serving.tpot_s", target,
           [](const SweepPoint& point) { return point.serving ? std::optional(point.serving->tpot_s) : std::nullopt; }},
          [](const Changes& changes) { return node_with(changes); }, Fidelity::step)
          .value();
  ASSERT_TRUE(result.found());
  ASSERT_TRUE(result.solution.below && result.solution.above);
  EXPECT_EQ(result.solution.below->x, 40);
  EXPECT_EQ(result.solution.above->x, 41);
}

TEST(DeploymentSolve, RefusesAQuantityThatIsNotKnown) {
  const auto result = solve(
      "inference.concurrency", std::nullopt,
      {"serving.demand_gpus", 10, [](const SweepPoint&) { return std::optional<double>(); }},
      [](const Changes& changes) { return node_with(changes); }, Fidelity::step);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().file, "--for");
}

}  // namespace
}  // namespace plumbline::sim
