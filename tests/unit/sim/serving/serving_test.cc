#include "sim/serving/serving.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "tests/support/inputs.h"
#include "tests/support/serving_inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::sim {
namespace {

using model::ErrorKind;
using model::ServingResult;
using tests::deepseek_decode_unit;
using tests::engine_inputs;
using tests::expect_error;
using tests::llama_node;
using tests::of_engine;
using tests::OnePool;
using tests::serving_inputs;

const std::string deepseek_v2_node = R"(
[model]
config = "models/deepseek-v2.json"
[cluster]
topology = "h800-rail-fat-tree"
gpus = 8
[parallelism]
expert = 8
[inference]
concurrency = 0
)";

ServingResult served(const Inputs& inputs) {
  const auto result = ServingPredictor(inputs).predict(inputs.plan);
  if (!result) ADD_FAILURE() << to_string(result.error());
  return result.value_or(ServingResult{});
}

ServingResult served(const std::string& text, const std::string& profile,
                     const std::vector<std::string>& overrides = {}) {
  return served(serving_inputs(text, profile, overrides));
}

ServingResult on_llama(const std::vector<std::string>& overrides = {}) { return served(llama_node, "h100", overrides); }

model::Error refused(const Inputs& inputs) {
  const auto result = ServingPredictor(inputs).predict(inputs.plan);
  EXPECT_FALSE(result.has_value());
  return result ? model::Error{} : result.error();
}

model::Error llama_refused(const std::vector<std::string>& overrides) {
  return refused(serving_inputs(llama_node, "h100", overrides));
}

// Returns the seconds of a part of a step of the pool that decodes.
double part_seconds(const ServingResult& result, const std::string& name) {
  const auto& parts = result.pools.back().parts;
  const auto part = std::ranges::find(parts, name, &model::ServingPart::name);
  return part == parts.end() ? 0 : part->seconds;
}

TEST(Serving, ThroughputIsTheBatchOverTheTimePerToken) {
  const ServingResult r = on_llama();
  EXPECT_NEAR(r.output_tokens_per_s, r.batch_per_gpu * 8 / r.tpot_s, 1e-6 * r.output_tokens_per_s);
  EXPECT_NEAR(r.concurrency, r.output_tokens_per_s / 1024 * (r.ttft_s + 1024 * r.tpot_s), 1e-3);
  EXPECT_GT(r.tpot_s, r.decode_step_s);
  EXPECT_GT(r.itl_worst_s, r.tpot_s);
}

// A pause is long by prompts of others: eight of 1,024 tokens are a chunk of 8,192, and a request alone has none.
TEST(Serving, TheLongestPauseHasThePromptsOfOthers) {
  for (const char* chunk : {"inference.chunked_prefill_tokens=8192", "inference.chunked_prefill_tokens=0"}) {
    const auto pause = [&](const std::string& requests) {
      const ServingResult r = on_llama({"inference.concurrency=" + requests, chunk});
      return r.itl_worst_s - r.decode_step_s;
    };
    EXPECT_NEAR(pause("1"), 0, 1e-12) << chunk;
    EXPECT_GT(pause("2"), 0) << chunk;
    EXPECT_GT(pause("5"), 2 * pause("2")) << chunk;
    EXPECT_LT(pause("5"), 6 * pause("2")) << chunk;
  }
}

// Nothing runs when the only request in flight sends its prompt. Under load it waits for the rest of a step, and its
// own pass decodes the tokens of others, too.
TEST(Serving, TheFirstTokenWaitsForStepsUnderLoad) {
  const ServingResult alone = on_llama({"inference.concurrency=1"});
  EXPECT_NEAR(alone.ttft_s, alone.ttft_unloaded_s, 1e-6 * alone.ttft_unloaded_s);
  double shorter = alone.ttft_s;
  for (const std::string requests : {"16", "64", "256"}) {
    const ServingResult loaded = on_llama({"inference.concurrency=" + requests});
    EXPECT_GT(loaded.ttft_s, shorter);
    EXPECT_GT(loaded.ttft_s, 1.5 * loaded.decode_step_s);
    EXPECT_EQ(loaded.ttft_unloaded_s, alone.ttft_unloaded_s);
    shorter = loaded.ttft_s;
  }
}

// A prompt that joins steps of two stages is computed in both of them, after some of a step that runs.
TEST(Serving, PromptsPassAllStagesUnderLoad) {
  const ServingResult r = on_llama({"parallelism.tensor=4", "parallelism.pipeline=2", "inference.concurrency=16"});
  EXPECT_GT(r.ttft_s, r.ttft_unloaded_s + r.decode_step_s / 4);
}

// A pool for prefill that is too small: twice the requests in flight only wait, by Little's law each of the added ones
// for a request's worth of its rate.
TEST(Serving, PromptsQueueBeforeAPoolThatIsTooSmall) {
  const auto with = [](const std::string& requests) {
    return on_llama({"cluster.gpus=128", "inference.disaggregated=true", "inference.prefill.gpus=8",
                     "inference.input_tokens=4096", "inference.concurrency=" + requests});
  };
  const ServingResult many = with("2000"), twice = with("4000");
  EXPECT_NEAR(twice.output_tokens_per_s, many.output_tokens_per_s, 0.02 * many.output_tokens_per_s);
  EXPECT_NEAR(twice.ttft_s - many.ttft_s, 2000 / (many.output_tokens_per_s / 1024), 0.1 * twice.ttft_s);
  EXPECT_GT(many.ttft_s, many.pools.at(0).step_s);
  EXPECT_NEAR(many.pools.at(0).tokens_per_step, 16384, 1);  // full passes of four prompts
  EXPECT_NEAR(many.pools.at(0).batch_per_gpu * 8, 4, 1e-9);
  const ServingResult few = with("16");
  EXPECT_GT(few.ttft_s, few.pools.at(0).step_s);
  EXPECT_LT(few.pools.at(0).step_s, many.pools.at(0).step_s);
}

// Of prompts of 4,096 tokens half are computed, so that a pass of 16,384 has eight.
TEST(Serving, CachedPrefixesLeaveRoomForMorePromptsInAPass) {
  const ServingResult r =
      on_llama({"cluster.gpus=128", "inference.disaggregated=true", "inference.prefill.gpus=8",
                "inference.input_tokens=4096", "inference.prefix_hit_rate=0.5", "inference.concurrency=4000"});
  EXPECT_NEAR(r.pools.at(0).tokens_per_step, 16384, 1);
  EXPECT_NEAR(r.pools.at(0).batch_per_gpu * 8, 8, 1e-9);
}

// Prompts of 16,384 tokens fill a pass of their pool each, which is an M/D/1 queue: of passes of S, of which so many
// arrive that a share u of the time is used, each waits for S u / (2 (1 - u)).
TEST(Serving, LongPromptsQueueOneByOne) {
  for (const std::string requests : {"3", "6"}) {
    const ServingResult r = on_llama({"cluster.gpus=64", "inference.disaggregated=true", "inference.prefill.gpus=8",
                                      "inference.input_tokens=16384", "inference.concurrency=" + requests});
    const double prompts_per_s = r.input_tokens_per_s_per_gpu * 64 / 16384;
    const double pass = 16384 / (8 * r.prefill_tokens_per_s_per_gpu), use = prompts_per_s * pass;
    ASSERT_GT(use, 0.05);
    ASSERT_LT(use, 0.9);
    const double wait = pass * use / (2 * (1 - use));
    EXPECT_NEAR(r.ttft_s - r.ttft_unloaded_s, wait, 0.01 * wait);
  }
}

// A pool that takes longer to prefill a wave than its requests take sets the rate: 16,384 tokens a pass.
TEST(Serving, WavesAreNoFasterThanThePoolThatPrefillsThem) {
  const ServingResult r =
      on_llama({"cluster.gpus=128", "inference.disaggregated=true", "inference.prefill.gpus=8",
                "inference.input_tokens=4096", "inference.concurrency=2000", "inference.arrivals=waves"});
  const double computed = 8 * r.prefill_tokens_per_s_per_gpu;
  EXPECT_NEAR(r.input_tokens_per_s_per_gpu * 128, computed, 1e-6 * computed);
  EXPECT_NEAR(r.concurrency, r.output_tokens_per_s / 1024 * (r.ttft_s + 1023 * r.tpot_s), 1e-3);
  EXPECT_THAT(r.notes, testing::Contains(testing::HasSubstr("Prefill binds")));
}

TEST(Serving, LimitsOfTheFirstTokenHoldAtTheLoad) {
  const ServingResult most = on_llama({"inference.concurrency=0"});
  const double limit = (most.ttft_s + most.ttft_unloaded_s) / 2;
  const ServingResult within = on_llama({"inference.concurrency=0", fmt::format("inference.max_ttft_s={}", limit)});
  EXPECT_LE(within.ttft_s, limit);
  EXPECT_GT(on_llama({fmt::format("inference.concurrency={}", within.concurrency + 1)}).ttft_s, limit);
  EXPECT_LT(within.concurrency, most.concurrency);
}

// Of ten requests no more than ten are in flight, whatever the plan allows.
TEST(Serving, WavesOfFewRequestsHaveThemInFlight) {
  const Inputs inputs = serving_inputs(
      llama_node, "h100", {"inference.arrivals=waves", "inference.requests=10", "inference.concurrency=64"});
  const ServingPredictor serving(inputs);
  EXPECT_EQ(serving.predict(inputs.plan)->concurrency, 10);
  EXPECT_EQ(serving.frontier(inputs.plan)->back().concurrency, 10);
}

// 64 prompts of 1,024 tokens fill 8.03 steps of 8,192 tokens, of which 32 are of requests that decode, in the mean. In
// one wave their first tokens come after half of these steps; in endless ones each waits for its own step and for the
// one that begins as a request ends, which has prompts but for the first of the groups. Then all groups
// but its own and those that wait, one and less at the end, decode in a step with prompts, so that it has fewer tokens
// for these and takes longer. A request is in 1,024 of the 1,025 steps from its start to that of the next one in its
// place.
TEST(Serving, WavesPrefillTogether) {
  const auto with = [](const std::string& one) { return on_llama({"inference.arrivals=waves", one}); };
  const ServingResult endless = with("inference.concurrency=64"), one = with("inference.requests=64"),
                      ten = with("inference.requests=640");
  const double first = 64 * 1024 / (8192.0 - 32), decoding = 64 / first * (first - 2 + 1 / (2 * first));
  const double steps = 64 * 1024 / (8192.0 - decoding), step = endless.decode_step_s;
  const double full = (endless.ttft_s - step / steps) / (2 - 1 / steps);
  EXPECT_GT(full, one.ttft_s / ((1 + first) / 2));
  EXPECT_NEAR(1023 * endless.tpot_s + endless.ttft_s, steps * full + (1025 - steps) * step, 1e-9);
  EXPECT_NEAR(ten.ttft_s, (one.ttft_s + 9 * endless.ttft_s) / 10, 1e-9);
  EXPECT_NEAR(ten.tpot_s, (one.tpot_s + 9 * endless.tpot_s) / 10, 1e-9);
  EXPECT_EQ(endless.batch_per_gpu * 8, 64);
  EXPECT_NEAR(endless.concurrency, endless.output_tokens_per_s / 1024 * (endless.ttft_s + 1023 * endless.tpot_s), 1e-6);
  EXPECT_LT(one.output_tokens_per_s, ten.output_tokens_per_s);
  EXPECT_LT(ten.output_tokens_per_s, endless.output_tokens_per_s);
  expect_error(llama_refused({"inference.requests=64"}), ErrorKind::input, "inference.requests");
}

// An engine that has launched the next step when the tokens of the last are out lets a prompt wait for that one, too.
// Of a wave of 8.03 groups the first waits for two steps without prompts and the second for one.
TEST(Serving, PromptsWaitForStepsThatAreLaunched) {
  const auto with = [](double ahead, std::vector<std::string> overrides) {
    return served(engine_inputs(llama_node, "h100", {of_engine("steps_ahead", ahead)}, overrides));
  };
  const std::string waves = "inference.arrivals=waves";
  const double first = 64 * 1024 / (8192.0 - 32), decoding = 64 / first * (first - 3 + 2 / first);
  const double steps = 64 * 1024 / (8192.0 - decoding);
  const ServingResult ahead = with(1, {waves});
  const double step = ahead.decode_step_s, full = (ahead.ttft_s - 3 * step / steps) / (3 - 3 / steps);
  EXPECT_GT(full, with(1, {waves, "inference.requests=64"}).ttft_s / ((1 + first) / 2));
  EXPECT_NEAR(1023 * ahead.tpot_s + ahead.ttft_s, steps * full + (1026 - steps) * step, 1e-9);
  const ServingResult alone = with(1, {"inference.concurrency=1"});
  EXPECT_NEAR(alone.ttft_s, alone.ttft_unloaded_s, 1e-9) << "nothing is launched";
  const ServingResult steady = with(1, {}), synchronous = with(0, {});
  EXPECT_NEAR(steady.ttft_s - synchronous.ttft_s, steady.tpot_s, 0.02 * steady.tpot_s);
}

// In the first wave all groups have prompts in the same steps; in later ones each when a request of its own ends, which
// the others wait for.
TEST(Serving, GroupsMeetTheirPromptsInTheFirstWaveOnly) {
  const auto waves = [](const std::string& one) {
    return served(deepseek_v2_node, "h800",
                  {"inference.attention_data=8", "inference.concurrency=512", "inference.arrivals=waves", one});
  };
  const ServingResult one = waves("inference.requests=512"), ten = waves("inference.requests=5120"),
                      endless = waves("inference.dispatch=auto");
  EXPECT_GT(endless.tpot_s, one.tpot_s);
  EXPECT_NEAR(ten.tpot_s, (one.tpot_s + 9 * endless.tpot_s) / 10, 1e-9);
  const Inputs inputs = serving_inputs(deepseek_v2_node, "h800", {"inference.attention_data=8"});
  const auto points = ServingPredictor(inputs).frontier(inputs.plan).value();
  const auto below = std::ranges::find_if(points, [](const auto& point) { return point.batch_per_gpu > 64; }) - 1;
  EXPECT_GT(endless.tpot_s, below->tpot_s) << "steady, with fewer requests than 64 that decode";
  EXPECT_LT(endless.tpot_s, (below + 1)->tpot_s) << "with more";
}

// Under load a prompt waits at least for its own kernels. Those that dispatch it are slower than the low-latency ones
// of a decode step with as many rows.
TEST(Serving, FirstTokensOfWavesComeNoEarlierThanThatOfARequestAlone) {
  for (const std::string requests : {"1", "2", "16", "64"}) {
    const ServingResult r =
        served(deepseek_v2_node, "h800",
               {"inference.attention_data=8", "inference.dispatch=deepep-2025-06", "inference.arrivals=waves",
                "inference.input_tokens=128", "inference.output_tokens=2048", "cluster.host_speed=100",
                "inference.concurrency=" + requests});
    EXPECT_GE(r.ttft_s, r.ttft_unloaded_s * (1 - 1e-9)) << requests;
  }
}

// 64 prompts of the first wave take 62.06 steps of 1,088 tokens, 32 of them of requests that decode; a request is in 16
// of them, the first of which is its prompt's, and waits for the others. So 15 of 62.06 groups decode in a later step.
TEST(Serving, PromptsOfWavesQueueWhereRequestsAreShorterThanTheirPasses) {
  const std::vector<std::string> plan = {"inference.arrivals=waves", "inference.output_tokens=16",
                                         "inference.chunked_prefill_tokens=1088"};
  const ServingResult r = on_llama(plan);
  const double decoding = 64 / (64 * 1024 / (1088.0 - 32)) * 15;
  const double steps = 64 * 1024 / (1088.0 - decoding), full = r.ttft_s / (steps - 16 + 1);
  EXPECT_NEAR(r.tpot_s, full, 1e-9) << "each of the 15 tokens after the first takes a step";
  EXPECT_NEAR(r.concurrency, r.output_tokens_per_s / 16 * (r.ttft_s + 15 * r.tpot_s), 1e-6);
}

TEST(Serving, PartsAddUpToTheStep) {
  for (const auto& [text, profile] : {std::pair(llama_node, "h100"), std::pair(deepseek_decode_unit, "h800")}) {
    const ServingResult r = served(text, profile);
    ASSERT_EQ(r.pools.size(), 1U);
    const auto& parts = r.pools[0].parts;
    const double sum = std::accumulate(parts.begin(), parts.end(), 0.0,
                                       [](double seconds, const auto& part) { return seconds + part.seconds; });
    EXPECT_NEAR(sum, r.pools[0].step_s, 1e-9 * sum);
    EXPECT_NEAR(r.pools[0].step_s, r.decode_step_s, 1e-9 * sum);
  }
}

TEST(Serving, MoreRequestsInFlightRaiseThroughputAndTheTimePerToken) {
  const Inputs inputs = serving_inputs(llama_node, "h100");
  const auto points = ServingPredictor(inputs).frontier(inputs.plan).value();
  ASSERT_GT(points.size(), 8U);
  EXPECT_EQ(points.front().concurrency, 1);
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_GT(points[i].concurrency, points[i - 1].concurrency);
    EXPECT_GE(points[i].tpot_s, points[i - 1].tpot_s);
    EXPECT_GE(points[i].output_tokens_per_s_per_gpu, points[i - 1].output_tokens_per_s_per_gpu * (1 - 1e-9));
    EXPECT_EQ(points[i - 1].dominated, points[i].tpot_s <= points[i - 1].tpot_s);  // more tokens in the same time
  }
}

TEST(Serving, LongerContextsTakeLongerAndLeaveRoomForFewerRequests) {
  ServingResult shorter = on_llama();
  for (const std::string tokens : {"2048", "4096", "8192"}) {
    const ServingResult longer = on_llama({"inference.input_tokens=" + tokens});
    EXPECT_GT(longer.tpot_s, shorter.tpot_s);
    EXPECT_GT(longer.ttft_unloaded_s, shorter.ttft_unloaded_s);
    EXPECT_LT(longer.most_concurrency, shorter.most_concurrency);
    shorter = longer;
  }
}

TEST(Serving, HitsOfThePrefixCacheSpareComputation) {
  const ServingResult none = on_llama();
  const ServingResult half = on_llama({"inference.prefix_hit_rate=0.5"});
  EXPECT_LT(half.tpot_s, none.tpot_s);
  EXPECT_LT(half.ttft_unloaded_s, none.ttft_unloaded_s);
}

// The activations of a step of 10^9 tokens leave no space, whatever the weights are divided over.
TEST(Serving, AHugeChunkIsNamedWhereItTakesTheSpace) {
  const model::Error refusal = llama_refused({"inference.chunked_prefill_tokens=1000000000"});
  expect_error(refusal, ErrorKind::infeasible, refusal.key, "lower inference.chunked_prefill_tokens");
}

// Zero requests in flight stand for as many as fit; a limit allows fewer.
TEST(Serving, LimitsBoundTheRequestsInFlight) {
  const ServingResult most = on_llama({"inference.concurrency=0"});
  EXPECT_EQ(most.concurrency, std::floor(most.most_concurrency)) << "a whole number";
  EXPECT_EQ(most.bound_by, model::ServingBound::kv);
  const double limit = most.tpot_s / 2;
  const ServingResult within = on_llama({"inference.concurrency=0", fmt::format("inference.max_tpot_s={}", limit)});
  EXPECT_LE(within.tpot_s, limit);
  EXPECT_GT(on_llama({fmt::format("inference.concurrency={}", within.concurrency + 1)}).tpot_s, limit);
  EXPECT_LT(within.concurrency, most.concurrency);
  expect_error(llama_refused({"inference.max_tpot_s=1e-4"}), ErrorKind::infeasible, "inference.max_tpot_s");
  expect_error(llama_refused({"inference.max_ttft_s=1e-4"}), ErrorKind::infeasible, "inference.max_ttft_s");
}

TEST(Serving, WhatDoesNotFitIsRefusedWithWhatWould) {
  expect_error(llama_refused({"parallelism.tensor=1", "inference.weights=\"bf16\""}), ErrorKind::infeasible,
               "parallelism.tensor", "2 times as many GPUs");
  expect_error(llama_refused({"inference.input_tokens=100000000"}), ErrorKind::infeasible, "inference.input_tokens");
  expect_error(llama_refused({"parallelism.tensor=128", "cluster.gpus=128"}), ErrorKind::infeasible,
               "parallelism.tensor", "64");
  expect_error(refused(serving_inputs(deepseek_decode_unit, "h800", {"inference.redundant_experts=30"})),
               ErrorKind::infeasible, "inference.redundant_experts", "32");
  // 256 experts on 144 ranks: 32 copies make two of each.
  expect_error(refused(serving_inputs(deepseek_decode_unit, "h800", {"inference.redundant_experts=0"})),
               ErrorKind::infeasible, "parallelism.expert", "but with 32 in inference.redundant_experts");
  expect_error(llama_refused({"cluster.gpus=12"}), ErrorKind::infeasible, "cluster.gpus", "8 or 16");
}

TEST(Serving, KeysOfExpertsAreRefusedOfADenseModel) {
  for (const std::string setting : {"inference.redundant_experts=8", "inference.two_micro_batches=true",
                                    "inference.expert_imbalance=1.2", "inference.expert_skew=0.5"}) {
    expect_error(llama_refused({setting}), ErrorKind::input, setting.substr(0, setting.find('=')), "has no experts");
  }
  EXPECT_GT(on_llama({"inference.expert_imbalance=1", "inference.expert_skew=0"}).tpot_s, 0);
}

// All tokens take an expert of the fullest rank at most: 256 experts of which a token takes 8.
TEST(Serving, ImbalanceBeyondThatOfOneExpertIsRefused) {
  expect_error(refused(serving_inputs(deepseek_decode_unit, "h800", {"inference.expert_imbalance=32.5"})),
               ErrorKind::input, "inference.expert_imbalance", "use at most 32");
  EXPECT_GT(served(deepseek_decode_unit, "h800", {"inference.expert_imbalance=32"}).tpot_s, 0);
  // Of 160 experts 6: what the hint names is below 26.666...
  EXPECT_EQ(refused(serving_inputs(deepseek_v2_node, "h800", {"inference.expert_imbalance=27"})).hint,
            "use at most 26.66");
}

TEST(Serving, PoolsOfAPlanThatSharesItsGpusAreRefused) {
  for (const std::string key : {"inference.prefill.tensor", "inference.decode.gpus"}) {
    expect_error(llama_refused({key + "=8"}), ErrorKind::input, key, "inference.disaggregated = true");
  }
  const ServingResult shared = on_llama({"inference.decode.tensor=4", "inference.disaggregated=false"});
  EXPECT_EQ(shared.tpot_s, on_llama().tpot_s);
}

// The reason of an error is all that a point of a sweep has.
TEST(Serving, PoolsWithoutGpusAreRefusedWithTheirSizes) {
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"inference.disaggregated=true"};
    all.insert(all.end(), more.begin(), more.end());
    return llama_refused(all);
  };
  EXPECT_THAT(with({}).message, testing::HasSubstr("instance of 8 for prefill and one of 8 for decode"));
  expect_error(with({"inference.decode.gpus=8"}), ErrorKind::infeasible, "inference.decode.gpus",
               "none is left for prefill");
  EXPECT_THAT(with({"inference.decode.gpus=16"}).message, testing::HasSubstr("none is left for prefill"));
  EXPECT_THAT(with({"inference.prefill.gpus=8"}).message, testing::HasSubstr("none is left for decode"));
  EXPECT_THAT(with({"inference.decode.gpus=4"}).message, testing::HasSubstr("4 GPUs for prefill are no whole number"));
}

TEST(Serving, PoolsOfADisaggregatedDeploymentMatchTheirRates) {
  const ServingResult r = on_llama({"cluster.gpus=128", "inference.disaggregated=true", "inference.concurrency=0"});
  ASSERT_EQ(r.pools.size(), 2U);
  EXPECT_EQ(r.pools[0].name, "prefill");
  EXPECT_EQ(r.pools[1].name, "decode");
  EXPECT_EQ(r.prefill_gpus + r.decode_gpus, 128);
  // Neither pool can do more: prefill computes what enters, or decode is full.
  const double entering = r.input_tokens_per_s_per_gpu * 128;
  const double computed = r.prefill_tokens_per_s_per_gpu * static_cast<double>(r.prefill_gpus);
  EXPECT_LE(entering, computed * (1 + 1e-9));
  EXPECT_NEAR(r.tpot_s, r.decode_step_s, 1e-9);
  EXPECT_NEAR(r.itl_worst_s, r.decode_step_s, 1e-9);
}

TEST(Serving, PoolsOfEqualDegreesHaveTransfersOfTheirOwn) {
  const ServingResult r = served(deepseek_decode_unit, "h800", {"cluster.gpus=288", "inference.disaggregated=true"});
  EXPECT_GT(r.tpot_s, 0);
  EXPECT_GT(r.output_tokens_per_s, 0);
}

TEST(Serving, DemandOfPoolsFollowsFromTheRateOfEach) {
  const ServingResult r = served(deepseek_decode_unit, "h800",
                                 {"cluster.gpus=288", "inference.disaggregated=true",
                                  "inference.prefix_hit_rate=0.5625", "inference.demand_output_tokens_per_day=168e9"});
  // An output token has 4383 / 1211 input tokens, of which 43.75 % are computed.
  const double computed = 168e9 * 4383 / 1211 * 0.4375;
  EXPECT_NEAR(*r.demand_prefill_gpus * r.prefill_tokens_per_s_per_gpu * 86400, computed, 1);
  EXPECT_NEAR(*r.demand_decode_gpus * r.batch_per_gpu / r.tpot_s * 86400, 168e9, 1);
  EXPECT_DOUBLE_EQ(*r.demand_gpus, *r.demand_prefill_gpus + *r.demand_decode_gpus);
}

TEST(Serving, DemandAndPricesFollowFromRates) {
  const ServingResult r = on_llama({"inference.demand_output_tokens_per_day=1e9", "run.price_usd_per_gpu_hour=2.0"});
  EXPECT_NEAR(*r.demand_gpus * r.output_tokens_per_s_per_gpu * 86400, 1e9, 1);
  // A day of whole GPUs at 2 USD an hour, over the thousand million tokens of the demand.
  EXPECT_NEAR(*r.usd_per_million_output_tokens_of_demand, std::ceil(*r.demand_gpus) * 2.0 * 24 / 1000, 1e-9);
  EXPECT_NEAR(*r.usd_per_million_tokens_all_in, 2 * 8 / (r.output_tokens_per_s * 3600) * 1e6, 1e-9);
  EXPECT_NEAR(*r.usd_per_million_output_tokens + *r.usd_per_million_input_tokens, *r.usd_per_million_tokens_all_in,
              1e-9);  // as many tokens in as out
}

// One request of 100 tokens in and 10 out, one of 300 in and 30 out: three of four steps hold a token of the second.
TEST(Serving, LengthsOfRequestsAreWeighedByTheirSteps) {
  const tests::TemporaryDirectory folder;
  const std::string file = folder.path() / "lengths.csv";
  std::ofstream(file) << "# input,output\n100,10\n300,30\n";
  const Inputs inputs = serving_inputs(llama_node, "h100", {"inference.lengths=\"" + file + "\""});
  const MeanRequest mean = mean_request(inputs.plan);
  EXPECT_DOUBLE_EQ(mean.input, 200);
  EXPECT_DOUBLE_EQ(mean.output, 20);
  EXPECT_DOUBLE_EQ(mean.context, 0.25 * 105 + 0.75 * 315);
  EXPECT_GT(served(inputs).tpot_s, 0);
  std::ofstream(file) << "100,10000\n3000000,10\n";
  const auto long_ones = ServingPredictor(serving_inputs(llama_node, "h100", {"inference.lengths=\"" + file + "\""}));
  const auto none = long_ones.predict(serving_inputs(llama_node, "h100", {"inference.lengths=\"" + file + "\""}).plan);
  tests::expect_error(none, model::ErrorKind::infeasible, "--set", 0, "inference.lengths",
                      "3000010 tokens of the longest");
  std::ofstream(file) << "100;10\n";
  const auto refused = model::read_plan(llama_node, "plan.toml", {"inference.lengths=\"" + file + "\""});
  tests::expect_error(refused, model::ErrorKind::input, file, 1, "", "input,output");
}

TEST(Serving, RequestsThatOutgrowThePositionsAreNoted) {
  Inputs inputs = serving_inputs(llama_node, "h100", {"inference.input_tokens=4000", "inference.output_tokens=200"});
  const auto noted = testing::Contains(testing::HasSubstr("Requests grow to 4200 tokens"));
  EXPECT_THAT(served(inputs).notes, testing::Not(noted));  // 8,192 positions
  inputs.architecture.longest_sequence = 4200;
  EXPECT_THAT(served(inputs).notes, testing::Not(noted));
  inputs.architecture.longest_sequence = 4199;
  EXPECT_THAT(served(inputs).notes, noted);
}

// Weights of a format without GEMMs of its own spare memory only.
TEST(Serving, FormatsWithoutGemmsComputeIn16Bits) {
  const ServingResult stored = on_llama({"inference.weights=\"mxfp4\""});
  const ServingResult wide = on_llama({"inference.weights=\"bf16\""});
  EXPECT_LT(stored.decode_step_s, wide.decode_step_s);
  EXPECT_NEAR(stored.prefill_tokens_per_s_per_gpu, wide.prefill_tokens_per_s_per_gpu,
              0.05 * wide.prefill_tokens_per_s_per_gpu);
  EXPECT_THAT(stored.notes, testing::Contains(testing::HasSubstr("mxfp4")));
}

// A prompt that joins a decode step reads no weights of its own, so that few requests wait less for it than for a pass.
TEST(Serving, PromptsShareTheWeightsOfADecodeStep) {
  const ServingResult joined = on_llama({"inference.concurrency=4"});
  const ServingResult apart = on_llama({"inference.concurrency=4", "inference.chunked_prefill_tokens=0"});
  EXPECT_LT(joined.tpot_s, apart.tpot_s);
  EXPECT_GT(joined.tpot_s, joined.decode_step_s);
}

TEST(Serving, PromptsJoinStepsAsThePlanStates) {
  const ServingResult joined = on_llama(), apart = on_llama({"inference.mixed_chunks=false"});
  EXPECT_EQ(on_llama({"inference.mixed_chunks=true"}).tpot_s, joined.tpot_s);
  EXPECT_EQ(llama_refused({"inference.mixed_chunks=true", "inference.chunked_prefill_tokens=0"}).key,
            "inference.mixed_chunks");
  EXPECT_GT(apart.tpot_s, joined.tpot_s);
  EXPECT_EQ(served(engine_inputs(llama_node, "h100", {of_engine("mixed_chunks", 0)})).tpot_s, apart.tpot_s);
}

// Of 8,192 tokens 512 are of requests that decode: seven and a half prompts of 1,024 fit in the rest, or seven where
// none is divided. Two rows of a request whose draft is checked leave six and a half of them.
TEST(Serving, RequestsThatDecodeHaveTheFirstTokensOfAStep) {
  const auto prompts = [](double whole, double requests, const char* override) {
    return OnePool(engine_inputs(llama_node, "h100", {of_engine("whole_prompts", whole)}, {override}))
        ->prompts_of_step(requests);
  };
  const char* alone = "inference.speculative_tokens=0";
  EXPECT_DOUBLE_EQ(prompts(0, 0, alone), 8);
  EXPECT_DOUBLE_EQ(prompts(0, 512, alone), 7.5);
  EXPECT_DOUBLE_EQ(prompts(1, 512, alone), 7);
  EXPECT_DOUBLE_EQ(prompts(0, 768, "inference.speculative_tokens=1"), 6.5);
  EXPECT_DOUBLE_EQ(prompts(0, 768, "inference.mixed_chunks=false"), 8);
  EXPECT_DOUBLE_EQ(prompts(0, 9000, alone), 1) << "others wait";
}

// Of eight ranks that share experts, one with a prompt delays the others: less than a prompt on each would, but by more
// than an eighth of it.
TEST(Serving, RanksThatShareExpertsWaitForPromptsOfOthers) {
  const OnePool pool(engine_inputs(deepseek_decode_unit, "h800", {}));
  const double everywhere = pool->added_seconds(64, 1, 1), on_one_of_eight = pool->added_seconds(64, 1, 0.125);
  EXPECT_LT(on_one_of_eight, everywhere);
  EXPECT_GT(on_one_of_eight, 2 * everywhere / 8);
}

// 8,192 tokens of 144 groups are 56 of each: SGLang computes a prompt of 4,383 tokens in 79 passes, others in one. GPUs
// that do nothing else take all of them.
TEST(Serving, GroupsDivideTheTokensOfAChunk) {
  const auto pool_with = [](double shared) {
    const OnePool pool(engine_inputs(deepseek_decode_unit, "h800", {of_engine("shared_chunks", shared)}));
    return std::pair(pool->chunks(), pool->prefill_seconds_per_token());
  };
  const auto [one, alone] = pool_with(0);
  const auto [many, shared] = pool_with(1);
  EXPECT_EQ(one, 1);
  EXPECT_EQ(many, 79);
  EXPECT_EQ(shared, alone);
}

TEST(Serving, StagesOfAPipelineFollowEachOther) {
  const std::vector<std::string> two = {"parallelism.tensor=4", "parallelism.pipeline=2"};
  const ServingResult wide = on_llama({"inference.concurrency=1"});
  std::vector<std::string> alone = two;
  alone.emplace_back("inference.concurrency=1");
  EXPECT_GT(on_llama(alone).tpot_s, wide.tpot_s);
  const ServingResult many = on_llama(two);
  EXPECT_EQ(many.pools[0].gpus_per_instance, 8);
  EXPECT_EQ(many.pools[0].instances, 1);
}

// What an engine adds to a pass is divided over its stages: prefill on four of them slows by the factor, not by four
// times as much.
TEST(Serving, EnginesSlowEachStageByTheirFactor) {
  const auto rate = [](double factor) {
    return served(engine_inputs(llama_node, "h100", {of_engine("engine_factor", factor)},
                                {"parallelism.tensor=2", "parallelism.pipeline=4"}))
        .prefill_tokens_per_s_per_gpu;
  };
  EXPECT_NEAR(rate(1) / rate(1.1), 1.1, 0.01);
}

model::Parameter of_host(const std::string& name, double value, const char* unit) {
  return {"host." + name, value, unit, model::Evidence::assumed, "this test"};
}

// An engine that launches a kernel in 100 us, and captures batches as vLLM does.
Inputs graph_inputs(double graphs, const std::vector<std::string>& overrides = {}) {
  return engine_inputs(
      llama_node, "h100",
      {of_engine("graphs.step", 8), of_engine("graphs.wide_from", 256), of_engine("graphs.wide_step", 16),
       of_engine("graphs.most", 512), of_host("graphs", graphs, "1"), of_host("launch", 1e-4, "s")},
      overrides);
}

TEST(Serving, BatchesAboveTheLargestGraphAreNamed) {
  const auto named = testing::Contains(testing::HasSubstr("largest CUDA graph, of 512"));
  EXPECT_THAT(served(graph_inputs(1, {"inference.concurrency=640"})).notes, named);
  EXPECT_THAT(served(graph_inputs(1, {"inference.concurrency=256"})).notes, testing::Not(named));
  EXPECT_THAT(served(graph_inputs(0, {"inference.concurrency=640"})).notes, testing::Not(named));
}

// Of requests of 64 tokens, more than 8 on each of 8 ranks that share experts, more than one prompt arrives in a step:
// the host, which takes longer than the GPU, launches every step kernel by kernel, however many requests it has. What
// it does for each request it does for all of the step, those that decode included. A rank alone would have a prompt in
// a part of its steps.
TEST(Serving, RanksThatShareExpertsWaitForTheHostWhereOneOfThemHasAPrompt) {
  const auto with = [](const std::string& requests, double each) {
    return served(engine_inputs(
        deepseek_v2_node, "h800",
        {of_host("graphs", 1, "1"), of_host("launch", 1e-3, "s"), of_engine("host_request", each, "s")},
        {"inference.attention_data=8", "inference.output_tokens=64", "inference.concurrency=" + requests}));
  };
  const ServingResult some = with("128", 0), more = with("256", 0);
  ASSERT_GT(some.batch_per_gpu, 8);
  ASSERT_LT(more.batch_per_gpu, 64);
  EXPECT_NEAR(more.tpot_s, some.tpot_s, 1e-9);
  const ServingResult counted = with("256", 1e-4);
  EXPECT_NEAR(counted.tpot_s - more.tpot_s, 1e-4 * (counted.batch_per_gpu + 1), 1e-9) << "and one with its prompt";
}

// A request alone waits for nothing: it has the four passes of its prompt, the last of which gives the first of eight
// tokens; each other takes a step. With a slow host its pass is launched no faster than on an idle engine.
TEST(Serving, ARequestAloneIsAWaveOfItsOwn) {
  const std::vector<std::string> plan = {"inference.arrivals=waves", "inference.concurrency=1",
                                         "inference.input_tokens=4096", "inference.chunked_prefill_tokens=1024",
                                         "inference.output_tokens=8"};
  const ServingResult chunks = on_llama(plan);
  EXPECT_NEAR(chunks.tpot_s, chunks.decode_step_s, 1e-9);
  EXPECT_LT(chunks.ttft_s, 1.2 * chunks.ttft_unloaded_s);
  EXPECT_NEAR(chunks.output_tokens_per_s * (chunks.ttft_s + 7 * chunks.tpot_s), 8, 1e-6);
  const ServingResult launched = served(graph_inputs(1, {"inference.arrivals=waves", "inference.concurrency=1"}));
  for (const ServingResult& one : {chunks, launched}) EXPECT_GE(one.ttft_s, one.ttft_unloaded_s * (1 - 1e-9));
}

TEST(Serving, BatchesArePaddedToThoseThatAreCaptured) {
  const OnePool pool(graph_inputs(1));
  const auto rows = [&](double requests) { return pool.costs->captured(requests)->rows; };
  EXPECT_EQ(rows(1), 1);
  EXPECT_EQ(rows(3), 4);
  EXPECT_EQ(rows(5), 8);
  EXPECT_EQ(rows(61), 64);
  EXPECT_EQ(rows(256), 256);
  EXPECT_EQ(rows(257), 272);
  EXPECT_EQ(rows(512), 512);
  EXPECT_FALSE(pool.costs->captured(513));
  const PassTime one_more = pool->step(65), full = pool->step(72), before = pool->step(64);
  const auto sums = static_cast<std::size_t>(PassPart::collectives);
  EXPECT_DOUBLE_EQ(one_more.by[sums].seconds.sum(), full.by[sums].seconds.sum()) << "of 72 rows both";
  EXPECT_GT(one_more.by[sums].seconds.sum(), before.by[sums].seconds.sum());
  // Attention reads the keys and values of 65 requests.
  EXPECT_GT(full.core_attention, one_more.core_attention);
  EXPECT_NEAR(one_more.core_attention, before.core_attention, 0.05 * before.core_attention);
}

// At least ten kernels of a layer, of which there are 80: the host takes 80 ms and more.
TEST(Serving, WithoutGraphsTheHostLaunchesEachKernelOfADecodeStep) {
  const auto step = [](double graphs) { return served(graph_inputs(graphs, {"inference.concurrency=4"})); };
  const ServingResult with = step(1), without = step(0);
  EXPECT_LT(with.decode_step_s, 0.02);
  EXPECT_GT(without.decode_step_s, 80 * 10 * 1e-4);
  EXPECT_EQ(without.bound_by, model::ServingBound::host);
}

// TensorRT-LLM's attention and SwiGLU write FP8 of a static scale: two casts of a layer, of the hidden and of the MLP's
// columns, have no kernel. Those of blocks of 128 entries have.
TEST(Serving, EnginesThatKnowScalesCastWhereTheyWrite) {
  const auto cost = [](const std::string& weights, double casts) {
    const Inputs inputs =
        engine_inputs(llama_node, "h100", {of_engine("static_casts", casts), of_host("launch", 1e-5, "s")},
                      {"inference.weights=" + weights});
    const auto costs = PassCosts::make(inputs).value();
    const auto instance = model::make_instance(inputs.plan, inputs.architecture, model::PoolKind::both).value();
    const auto transfers = costs->communication(inputs.plan, instance, true).value();
    return *costs->block(inputs.plan, instance, *transfers, {.requests = 64}, model::BlockKind::dense_layer);
  };
  EXPECT_NEAR(cost("fp8_tensor", 0).launches - cost("fp8_tensor", 1).launches, 2e-5, 1e-12);
  EXPECT_LT(cost("fp8_tensor", 1).sum().sum(), cost("fp8_tensor", 0).sum().sum());
  EXPECT_EQ(cost("fp8", 1).sum().sum(), cost("fp8", 0).sum().sum());
}

// A faster memory, a faster network or more of both never make a step slower.
TEST(Serving, FasterHardwareIsNeverSlower) {
  const double step = served(deepseek_decode_unit, "h800").decode_step_s;
  EXPECT_LE(served(deepseek_decode_unit, "h800", {"cluster.nic_gbps=800"}).decode_step_s, step * (1 + 1e-12));
}

TEST(Serving, SpeculationMakesMoreTokensOfAStep) {
  const ServingResult one = served(deepseek_decode_unit, "h800", {"inference.speculative_tokens=0"});
  const ServingResult two = served(deepseek_decode_unit, "h800");
  EXPECT_DOUBLE_EQ(one.tokens_per_step, 1);
  EXPECT_NEAR(two.tokens_per_step, 1.85, 1e-12);
  EXPECT_GT(two.decode_step_s, one.decode_step_s);
}

// The memory of an H100 as an engine with those constants divides it.
model::ServingPool divided(const std::vector<model::Parameter>& constants,
                           const std::vector<std::string>& overrides = {}) {
  return served(engine_inputs(llama_node, "h100", constants, overrides)).pools.at(0);
}

// vLLM: 0.9 of the memory less weights, libraries and the run that finds the space, with 1,024 rows of 128,256 logits
// of 6 B. TensorRT-LLM: 0.9 of what is left. SGLang: what its rule leaves less the weights, 1 - (512 + 1.5 * 8192 + 2 *
// 512
// + 1024) MiB / memory.
TEST(Serving, EnginesDivideTheMemoryByTheirRules) {
  const model::ServingPool whole = divided({});
  const double others = whole.weights_bytes + whole.reserve_bytes + whole.activations_bytes;
  EXPECT_NEAR(whole.kv_bytes, 0.9 * whole.capacity_bytes - others, 1);
  const model::ServingPool vllm = divided({of_engine("most_requests", 1024), of_engine("memory.logit", 6, "B")});
  EXPECT_GE(vllm.activations_bytes, 1024.0 * 128256 * 6);
  EXPECT_NEAR(vllm.kv_bytes + vllm.activations_bytes, whole.kv_bytes + whole.activations_bytes, 1);
  const model::ServingPool tensorrt = divided({of_engine("memory.free", 1)});
  EXPECT_NEAR(tensorrt.kv_bytes, 0.9 * (whole.capacity_bytes - others), 1);
  constexpr double mib = 1048576;
  const std::vector<model::Parameter> rule = {of_engine("memory.static", 1),
                                              of_engine("memory.fixed", 512 * mib, "B"),
                                              of_engine("memory.token", 1.5 * mib, "B"),
                                              of_engine("memory.graph", 2 * mib, "B"),
                                              of_engine("memory.gpu", 128 * mib, "B"),
                                              of_engine("memory.draft", 2048 * mib, "B"),
                                              of_engine("graphs.step", 8),
                                              of_engine("graphs.most", 512)};
  const double left = (512 + 1.5 * 8192 + 2 * 512 + 8 * 128) * mib;
  const model::ServingPool sglang = divided(rule);
  EXPECT_NEAR(sglang.kv_bytes, sglang.capacity_bytes - left - sglang.weights_bytes, 1);
  const model::ServingPool drafted = divided(rule, {"inference.speculative_tokens=1"});
  EXPECT_NEAR(drafted.kv_bytes, drafted.capacity_bytes - left - 2048 * mib - drafted.weights_bytes, 1);
  const model::ServingPool stated = divided(rule, {"inference.memory_share=0.8"});
  EXPECT_NEAR(stated.kv_bytes, 0.8 * stated.capacity_bytes - stated.weights_bytes, 1);
}

// A request of 1,536 tokens in the mean has half a block more than it needs: 15.5 tokens of blocks of 32.
TEST(Serving, RequestsHaveWholeBlocksOfTheCache) {
  const model::ServingPool tokens = divided({}), blocks = divided({of_engine("memory.block_tokens", 32)});
  EXPECT_NEAR(tokens.kv_capacity_tokens / blocks.kv_capacity_tokens, (1536 + 15.5) / 1536, 1e-9);
}

// Of a request of 1,024 tokens and as many of output 1,536 are there in the mean, and 512 are yet to come; of those at
// most 256 count as 256 - 256^2 / 2048 = 224. An engine that puts none out keeps space for all 2,048. What fits is the
// same.
TEST(Serving, EnginesKeepSpaceForTokensYetToCome) {
  const auto with = [](const std::vector<model::Parameter>& engine) {
    const Inputs inputs =
        engine_inputs(llama_node, "h100", engine, {"inference.concurrency=0", "inference.arrivals=waves"});
    return served(inputs);
  };
  const ServingResult mean = with({}), whole = with({of_engine("memory.reserved", 1)}),
                      part = with({of_engine("memory.reserved", 0.098)}),
                      bounded = with({of_engine("memory.reserved", 0.5), of_engine("memory.reserved_tokens", 256)});
  EXPECT_NEAR(mean.most_concurrency / whole.most_concurrency, 2048.0 / 1536, 1e-9);
  EXPECT_NEAR(mean.most_concurrency / part.most_concurrency, (1536 + 0.098 * 512) / 1536, 1e-9);
  EXPECT_NEAR(mean.most_concurrency / bounded.most_concurrency, (1536 + 0.5 * 224) / 1536, 1e-9);
  EXPECT_EQ(mean.kv_capacity_tokens, whole.kv_capacity_tokens);
}

// In the mean half of the output is there, so that space for 0.6 of what there is for all tokens would seem enough.
TEST(Serving, TheLongestRequestMustFitAtItsEnd) {
  const double space = on_llama({"inference.concurrency=1"}).kv_capacity_tokens;
  const auto output = std::llround(1.2 * space);
  const model::Error error = llama_refused({fmt::format("inference.output_tokens={}", output)});
  EXPECT_EQ(error.kind, ErrorKind::infeasible);
  EXPECT_THAT(error.message, testing::StartsWith(fmt::format("{} tokens of one request", 1024 + output)));
}

TEST(Serving, SchedulersBoundTheRequestsOfAStep) {
  Inputs inputs = engine_inputs(llama_node, "h100", {of_engine("most_requests", 32)},
                                {"inference.concurrency=0", "inference.arrivals=waves"});
  const ServingResult bounded = served(inputs);
  EXPECT_DOUBLE_EQ(bounded.concurrency, 32);
  EXPECT_NE(bounded.bound_by, model::ServingBound::kv);
  inputs.plan.inference.concurrency = 64;
  const ServingResult waiting = served(inputs);
  EXPECT_THAT(waiting.notes, testing::Contains(testing::HasSubstr("the engine runs at most 32")));
}

// A head of one layer of Llama 3 70B: 855.6 M weights of attention and MLP in 16 bits over eight ranks, and a
// projection of twice the hidden size that each of them has; embedding and output matrix are the model's. Each pass
// reads them and 263 MB of the output matrix.
TEST(Serving, AHeadThatDraftsHasWeightsAndPassesOfItsOwn) {
  const ServingResult none = on_llama();
  const ServingResult one = on_llama({"inference.speculative_tokens=1"});
  const ServingResult three = on_llama({"inference.speculative_tokens=3"});
  const double layer = 855'638'016.0 * 2 / 8, projection = 2.0 * 8192 * 8192 * 2, output = 128256.0 * 8192 * 2 / 8;
  EXPECT_NEAR(three.pools.at(0).weights_bytes - none.pools.at(0).weights_bytes, layer + projection, 1e6);
  EXPECT_EQ(three.pools.at(0).weights_bytes, one.pools.at(0).weights_bytes);
  // A token has keys and values in 81 layers.
  const auto capacity = [](const ServingResult& r) {
    return r.pools.at(0).kv_bytes / r.pools.at(0).kv_capacity_tokens;
  };
  EXPECT_NEAR(capacity(three) / capacity(none), 81.0 / 80, 1e-9);
  const double pass = (layer + projection + output) / 3.35e12;
  EXPECT_EQ(part_seconds(none, "speculation"), 0);
  EXPECT_GT(part_seconds(one, "speculation"), pass);
  EXPECT_LT(part_seconds(one, "speculation"), 6 * pass);
  EXPECT_GT(part_seconds(three, "speculation"), 2 * part_seconds(one, "speculation"));
  EXPECT_LT(part_seconds(three, "speculation"), 4 * part_seconds(one, "speculation"));
  EXPECT_NEAR(three.tokens_per_step, 1 + 0.72 + 0.72 * 0.71 + 0.72 * 0.71 * 0.65, 1e-12);
  EXPECT_GT(three.ttft_unloaded_s, none.ttft_unloaded_s) << "the head reads prompts, too";
}

TEST(Serving, ALookUpDraftsWithoutTheGpu) {
  const std::vector<std::string> looked_up = {"inference.speculative_tokens=2", "inference.draft=\"ngram\""};
  const ServingResult r = on_llama(looked_up), none = on_llama();
  EXPECT_EQ(part_seconds(r, "speculation"), 0);
  EXPECT_EQ(r.pools.at(0).weights_bytes, none.pools.at(0).weights_bytes);
  EXPECT_NEAR(r.tokens_per_step, 1 + 0.44 + 0.44 * 0.91, 1e-12);
  EXPECT_GT(r.decode_step_s, none.decode_step_s) << "three tokens of a request are checked";
  EXPECT_THAT(r.notes, testing::Contains(testing::HasSubstr("repeats less")));
}

// Returns inputs of the 70B for which another shipped model drafts.
Inputs drafted(const std::string& draft, const std::string& tokens, std::vector<std::string> overrides = {}) {
  const std::string file = "models/" + draft + ".json";
  overrides.push_back("inference.speculative_tokens=" + tokens);
  overrides.push_back("inference.draft=\"" + file + "\"");
  Inputs inputs = serving_inputs(llama_node, "h100", overrides);
  inputs.draft =
      std::make_shared<const model::Architecture>(model::load_architecture(tests::shipped("examples/" + file)).value());
  return inputs;
}

// Llama 3 8B for the 70B: its 8.03 G weights lie in 16 bits on eight ranks, and each pass reads all but the embedding.
TEST(Serving, ASmallModelDraftsWithAllOfItsLayers) {
  const ServingResult r = served(drafted("llama-3-8b", "4", {"inference.acceptance=[0.8, 0.7]"})), none = on_llama();
  const double weights = 8.03e9 * 2 / 8, embedding = 128256.0 * 4096 * 2 / 8;
  EXPECT_NEAR(r.pools.at(0).weights_bytes - none.pools.at(0).weights_bytes, weights, 0.005 * weights);
  EXPECT_GT(part_seconds(r, "speculation"), 4 * (weights - embedding) / 3.35e12);
  EXPECT_NEAR(r.tokens_per_step, 1 + 0.8 + 0.8 * 0.7 + 0.8 * 0.49 + 0.8 * 0.343, 1e-12);
}

// Sixteen passes of the 70B itself take longer than one that checks its tokens; one of the 8B does not.
TEST(Serving, ADraftThatTakesMostOfAStepIsNoted) {
  const auto noted = testing::Contains(testing::HasSubstr("of a step, more than what checks them"));
  EXPECT_THAT(served(drafted("llama-3-70b", "16")).notes, noted);
  EXPECT_THAT(served(drafted("llama-3-8b", "1")).notes, testing::Not(noted));
}

TEST(Serving, KeysOfDraftsWithoutDraftsAreNoted) {
  const auto noted = [](const char* key) {
    return testing::Contains(testing::HasSubstr(std::string(key).append(" has no effect")));
  };
  EXPECT_THAT(on_llama({"inference.draft=\"eagle\""}).notes, noted("inference.draft"));
  EXPECT_THAT(on_llama({"inference.acceptance=0.8"}).notes, noted("inference.acceptance"));
  for (const std::string& note : on_llama().notes) EXPECT_THAT(note, testing::Not(testing::HasSubstr("no effect")));
}

TEST(Serving, RoutingOfADenseModelIsNoted) {
  EXPECT_THAT(on_llama({"routing.imbalance=0.5"}).notes,
              testing::Contains(testing::HasSubstr("routing.imbalance has no effect: llama")));
}

TEST(Serving, DraftsThatAModelCannotHaveAreRefused) {
  expect_error(llama_refused({"inference.speculative_tokens=1", "inference.draft=\"mtp\""}), ErrorKind::infeasible,
               "inference.draft", "no prediction module");
  EXPECT_THAT(refused(drafted("llama-2-7b", "1")).message, testing::HasSubstr("vocabulary of 32000"));
}

// Without attention data parallelism all ranks have the same tokens: engines send none of them, and sum what experts
// add.
TEST(Serving, ExpertsOnTensorRanksAreSummedByAnAllReduce) {
  const auto with = [](const std::string& degree, const std::string& dispatch) {
    return served(deepseek_v2_node, "h800", {degree, "inference.concurrency=64", "inference.dispatch=" + dispatch});
  };
  const std::string tensor = "parallelism.tensor=8";
  const ServingResult summed = with(tensor, "auto");
  EXPECT_GT(part_seconds(summed, "all-reduce"), 0);
  EXPECT_EQ(summed.tpot_s, with(tensor, "all-reduce").tpot_s);
  EXPECT_NE(summed.tpot_s, with(tensor, "deepep-2025-06").tpot_s);
}

// Engines gather all tokens of a node by default, in 16 bits: a token that every rank receives
// takes longer than one in FP8 for the ranks of its experts.
TEST(Serving, GroupsOfOneNodeGatherTheirTokens) {
  const auto with = [](const std::string& dispatch) {
    return served(deepseek_v2_node, "h800",
                  {"inference.attention_data=8", "inference.concurrency=512", "inference.dispatch=" + dispatch});
  };
  const ServingResult gathered = with("auto"), dispatched = with("deepep-2025-06");
  EXPECT_EQ(gathered.tpot_s, with("all-reduce").tpot_s);
  EXPECT_GT(part_seconds(dispatched, "dispatch"), 0);
  EXPECT_GT(part_seconds(gathered, "dispatch"), part_seconds(dispatched, "dispatch"));
}

// Tokens for experts of NVFP4 are cast before they are gathered: of what grows with bytes, 9/16 of a byte an element
// takes 28 % of what 16 bits do, one byte of FP8 half. A GPU without GEMMs of four bits gathers what it computes in.
TEST(Serving, GathersHaveTheFormatOfTheOperands) {
  const auto dispatch = [](const std::string& topology, const std::string& profile, const std::string& weights) {
    const ServingResult result =
        served(deepseek_v2_node, profile,
               {"cluster.topology=" + topology, "inference.weights=" + weights, "inference.attention_data=8",
                "inference.concurrency=8192", "inference.input_tokens=64", "inference.output_tokens=64"});
    return part_seconds(result, "dispatch");
  };
  const std::string b200 = tests::shipped_profile("b200");
  const double narrow = dispatch("b200-hgx", b200, "nvfp4"), wide = dispatch("b200-hgx", b200, "bf16");
  EXPECT_GT(narrow, 0);
  EXPECT_LT(narrow, 0.7 * wide);
  EXPECT_EQ(dispatch("h800-rail-fat-tree", "h800", "nvfp4"), dispatch("h800-rail-fat-tree", "h800", "fp8"));
}

// A latent is one for all heads, so that tensor ranks each hold all of it, while groups with requests of their own
// divide it (DeepSeek-V2, section 2.1).
TEST(Serving, GroupsWithRequestsOfTheirOwnDivideALatentCache) {
  const ServingResult replicated = served(deepseek_v2_node, "h800", {"parallelism.tensor=8"});
  const ServingResult divided = served(deepseek_v2_node, "h800", {"inference.attention_data=8"});
  EXPECT_GT(divided.most_concurrency, 4 * replicated.most_concurrency);
  EXPECT_GT(divided.output_tokens_per_s, 2 * replicated.output_tokens_per_s);
}

}  // namespace
}  // namespace plumbline::sim
