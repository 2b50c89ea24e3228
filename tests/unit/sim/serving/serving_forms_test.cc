// Published numbers of deployments that follow from others by the forms of the steady state. Sources: DeepSeek,
// open-infra-index, day 6 (production in February 2025); LMSYS, "Deploying DeepSeek with PD disaggregation and
// large-scale expert parallelism on 96 H100 GPUs" (2025-05-05); DeepSeek-V3 report, section 5.4.3.
#include "sim/serving/serving_forms.h"

#include <gtest/gtest.h>

namespace plumbline::sim {
namespace {

constexpr double node_gpus = 8, usd_per_gpu_hour = 2, node_usd = node_gpus * usd_per_gpu_hour;
constexpr double prefill_rate = 73.7e3, decode_rate = 14.8e3;                    // tokens/s of a node
constexpr double input_a_day = 608e9, output_a_day = 168e9, hits_a_day = 342e9;  // tokens

// A third party's reading of DeepSeek's decode profile in us: attention 388 with the gate's 19, of which 63 before the
// kernel over the cache; 2 [max(187, 34 + 63) + 128 + max(394, 344)] = 1418.
TEST(ServingForms, TwoMicroBatchesHideAttentionBehindTransfers) {
  const LayerSeconds profile{.attention_in = 63,
                             .attention_out = 388 - 63 + 19,
                             .dispatch = 187,
                             .shared = 34,
                             .mlp = 81 + 8 + 39,
                             .combine = 394};
  EXPECT_DOUBLE_EQ(overlapped_decode_layer(profile), 1418);
  EXPECT_NEAR(overlapped_decode_layer(profile) * 61 * 1e-3, 86.498, 5e-4);
}

TEST(ServingForms, PrefillOverlapsEachHalfWithATransferOfTheOther) {
  const LayerSeconds s{.attention_in = 1, .attention_out = 2, .dispatch = 5, .shared = 1, .mlp = 3, .combine = 4};
  EXPECT_DOUBLE_EQ(overlapped_prefill_layer(s), 5 + 5 + 4 + 4);
}

TEST(ServingForms, AcceptedTokensAreGeometric) {
  EXPECT_NEAR(tokens_per_step(1, {0.85}), 1.85, 1e-12);
  EXPECT_NEAR(tokens_per_step(1, {0.9}), 1.9, 1e-12);
  EXPECT_NEAR(tokens_per_step(3, {0.8}), 2.952, 1e-12);
  EXPECT_DOUBLE_EQ(tokens_per_step(0, {0.85}), 1);
  EXPECT_DOUBLE_EQ(tokens_per_step(3, {1}), 4);
  EXPECT_DOUBLE_EQ(tokens_per_step(3, {}), 1);
  EXPECT_NEAR(tokens_per_step(1, {0.875}) / 1.8 - 1, 0.0416667, 5e-8);  // the report's factor of 1.8
}

// vLLM's test of EAGLE-3 for Llama-3.1-8B: 0.7296, 0.5208 and 0.3545 of the drafts are accepted up to their first,
// second and third token, and a step yields 2.60 tokens.
TEST(ServingForms, AcceptanceFallsWithThePosition) {
  const std::vector<double> shares = {0.7296, 0.5208 / 0.7296, 0.3545 / 0.5208};
  EXPECT_NEAR(tokens_per_step(3, shares), 1 + 0.7296 + 0.5208 + 0.3545, 1e-12);
  EXPECT_NEAR(tokens_per_step(3, shares), 2.60, 0.005);
  EXPECT_NEAR(tokens_per_step(2, shares), 1 + 0.7296 + 0.5208, 1e-12);
  EXPECT_NEAR(tokens_per_step(4, {0.5, 0.25}), 1 + 0.5 + 0.125 + 0.03125 + 0.0078125, 1e-12);
}

// 18,598 tokens/s of a node are 2,324.8 of a GPU, with 128 requests and an acceptance of 0.6.
TEST(ServingForms, TheStepOfTheProfileFollowsFromItsRate) {
  EXPECT_NEAR(128 * tokens_per_step(1, {0.6}) / 2324.8 * 1e3, 88.0936, 5e-5);
}

TEST(ServingForms, BatchesFollowFromRates) {
  EXPECT_NEAR(batch_of_rate(decode_rate / node_gpus, 47.6e-3), 88.06, 1e-9);  // at 21 tokens/s and user
  EXPECT_NEAR(batch_of_rate(decode_rate / node_gpus, 1 / 21.0), 88.0952, 5e-5);
  EXPECT_NEAR(active_batch(64, 1000, 25e-3, 2), 59.2593, 5e-5);
  EXPECT_NEAR(prefill_share(64, 1000, 1000, 17e-6) * 1e3, 1.088, 1e-12);
}

TEST(ServingForms, ProductionNeedsThatManyNodes) {
  const double prefill = units_for(input_a_day, prefill_rate), decode = units_for(output_a_day, decode_rate);
  EXPECT_NEAR(prefill, 95.4822, 5e-5);
  EXPECT_NEAR(decode, 131.381, 5e-4);
  EXPECT_NEAR(prefill + decode, 226.864, 5e-4);
  EXPECT_NEAR(prefill / decode, 0.726756, 5e-7);
}

TEST(ServingForms, ProductionComputesWhatItsCacheMisses) {
  const double hits = hits_a_day / input_a_day;
  EXPECT_NEAR(hits, 0.5625, 5e-5);
  EXPECT_NEAR(computed_tokens(prefill_rate, hits), 32243.8, 0.05);
  // A request has 4,989 tokens in the cache on average, and 608 of input for 168 of output.
  EXPECT_NEAR(mean_context(4383.4, 1211.2), 4989, 0.05);
  EXPECT_NEAR(4383.4 / 1211.2, input_a_day / output_a_day, 5e-4);
}

TEST(ServingForms, TokensHaveAPrice) {
  EXPECT_NEAR(usd_per_million(node_usd, decode_rate), 0.3003, 5e-5);
  EXPECT_NEAR(usd_per_million(node_usd, prefill_rate), 0.0603045, 5e-8);
  EXPECT_NEAR(usd_per_million(node_usd, computed_tokens(prefill_rate, hits_a_day / input_a_day)), 0.137839, 5e-7);
  EXPECT_NEAR(usd_per_million(node_usd, 22282), 0.199463, 5e-7);  // LMSYS
  constexpr double nodes = 226.75;
  EXPECT_NEAR(usd_per_million(nodes * node_usd, output_a_day / 86400), 0.518286, 5e-7);
  EXPECT_NEAR(usd_per_million(nodes * node_usd, output_a_day / 86400) * output_a_day / 1e6, 87072, 1e-6);
}

// A step of 5 ms; with a prompt of 4 ms the host launches it in 20 ms.
TEST(ServingForms, StepsWithPromptsWaitForTheirLaunches) {
  EXPECT_DOUBLE_EQ(launch_wait(0.25, 20e-3, 5e-3, 0.25 * 4e-3), 0.25 * 11e-3);  // a quarter of them
  EXPECT_DOUBLE_EQ(launch_wait(1, 20e-3, 5e-3, 4e-3), 11e-3);
  EXPECT_DOUBLE_EQ(launch_wait(2, 20e-3, 5e-3, 8e-3), 7e-3);  // each has two
  EXPECT_EQ(launch_wait(4, 20e-3, 5e-3, 16e-3), 0);           // the GPU takes longer
  EXPECT_EQ(launch_wait(1, 3e-3, 5e-3, 0), 0);
}

// With places for one prompt what remains of the pass (use / 2 of it) and the backlog are the wait of an M/D/1 queue,
// use / (2 (1 - use)) passes. Passes of many prompts leave next to none behind.
TEST(ServingForms, PromptsThatDoNotFitWait) {
  EXPECT_NEAR(0.5 / 2 + backlog_seconds(1, 0.5, 1), 0.5 / (2 * 0.5), 1e-12);
  EXPECT_NEAR(0.9 / 2 + backlog_seconds(1, 0.9, 1), 0.9 / (2 * 0.1), 1e-12);
  EXPECT_LT(backlog_seconds(1, 0.5, 8), 0.01);
  EXPECT_EQ(backlog_seconds(1, 0, 8), 0);
}

// Two steps are left to the first group, one to the second and none to those after it; of four steps three groups have
// all, three and two.
TEST(ServingForms, LaterGroupsOfAWaveHaveFewerStepsLeft) {
  EXPECT_DOUBLE_EQ(steps_of_groups(2, 1, 8), 3);
  EXPECT_DOUBLE_EQ(steps_of_groups(2, 1.5, 8), 2 + 0.5);
  EXPECT_DOUBLE_EQ(steps_of_groups(2.5, 1, 8), 2.5 + 1.5 + 0.5);
  EXPECT_DOUBLE_EQ(steps_of_groups(4, 1, 3), 4 + 3 + 2);
  EXPECT_EQ(steps_of_groups(0, 1, 8), 0);
}

// A request that comes 10 ms after the end of a step of 4 ms misses two or three beginnings; one that comes at once the
// step that begins.
TEST(ServingForms, LateRequestsMissSteps) {
  EXPECT_DOUBLE_EQ(steps_begun(10e-3, 4e-3), 3);
  EXPECT_DOUBLE_EQ(steps_begun(9e-3, 4e-3), 2.75);
  EXPECT_EQ(steps_begun(1e-3, 4e-3), 1);
  EXPECT_EQ(steps_begun(0, 4e-3), 1);
}

}  // namespace
}  // namespace plumbline::sim
