// Deployments against published numbers that follow exactly, and against each other.
#include "sim/serving/serving.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/layers/key_value_cache.h"
#include "sim/serving/pool_model.h"
#include "sim/serving/serving_forms.h"
#include "tests/support/serving_inputs.h"

namespace plumbline::sim {
namespace {

using tests::llama_node;
using tests::OnePool;
using tests::serving_inputs;
using tests::shipped;

std::string config(const std::string& model) { return "model.config=models/" + model + ".json"; }

// open-infra-index, day 6: 4,989 tokens of context at 88 requests a GPU, by Little's law. A GPU of DeepSeek's decode
// unit holds 24.0 GB of weights, of which prediction modules are 0.4.
TEST(Serving, ADecodeUnitOfDeepseekHasRoomForItsRequests) {
  const auto v3 = model::load_architecture(shipped("examples/models/deepseek-v3.json")).value();
  const double request = model::cache_bytes(v3, model::cache_type("bf16"), 1, 4989);
  EXPECT_NEAR(88 * request / 1e9, 30.8517, 5e-5);
  EXPECT_NEAR(most_requests(72e9 - 23.9722e9, request), 136.992, 5e-3);
  const OnePool pool(serving_inputs(tests::deepseek_decode_unit, "h800", {"inference.speculative_tokens=0"}));
  EXPECT_NEAR(pool->memory().weights / 1e9, 23.97, 0.01 * 23.97);
}

// Of 48 layers 36 keep a state of 4 of 32 heads for a rank of eight, however long the request, and one more for each
// speculated token; 12 have keys and values of one of two heads.
TEST(Serving, StatesOfARequestDoNotGrowWithIt) {
  const auto memory = [&](const std::string& input, const std::string& speculated) {
    const OnePool pool(
        serving_inputs(llama_node, "h100",
                       {config("qwen3-next-80b-a3b"), "inference.input_tokens=" + input, "inference.output_tokens=1000",
                        "inference.draft=ngram", "inference.speculative_tokens=" + speculated}));
    EXPECT_NEAR(pool->memory().keys_values / (12 * 2 * 256 * 2),
                pool->request().context + (pool.costs->memory().block_tokens - 1) / 2, 1e-6);
    return pool->memory();
  };
  const PoolMemory shorter = memory("1000", "0"), longer = memory("9000", "0"), guesses = memory("1000", "2");
  EXPECT_EQ(shorter.states, 36 * (4 * 128 * 128 * 4.0 + 3 * (2 * 2 + 4) * 128 * 2.0));
  EXPECT_EQ(longer.states, shorter.states);
  EXPECT_GT(longer.keys_values, 5 * shorter.keys_values);
  EXPECT_EQ(shorter.bytes_per_request(), shorter.keys_values + shorter.states);
  EXPECT_EQ(guesses.bytes_per_request(), guesses.keys_values + 3 * guesses.states);
}

// Kimi Linear has states in 20 of 27 layers, of 4 of 32 heads for a rank of eight, and latents in the others, whole on
// each rank. Falcon-H1 has both in each of 44 layers: of 6 of 24 heads for a rank of four, next to one of two heads.
TEST(Serving, StatesAreOfLayersThatHaveThem) {
  const auto memory = [](const std::string& model, const std::string& tensor, double token) {
    const OnePool pool(serving_inputs(llama_node, "h100",
                                      {config(model), "inference.input_tokens=1000", "inference.output_tokens=1000",
                                       "parallelism.tensor=" + tensor}));
    EXPECT_NEAR(pool->memory().keys_values / token,
                pool->request().context + (pool.costs->memory().block_tokens - 1) / 2, 1e-6);
    return pool->memory().states;
  };
  EXPECT_EQ(memory("kimi-linear-48b-a3b", "8", 7 * (512 + 64) * 2), 20 * (4 * 128 * 128 * 4.0 + 3 * 3 * 4 * 128 * 2.0));
  EXPECT_EQ(memory("falcon-h1-7b", "4", 44 * 2 * 128 * 2), 44 * (6 * 256 * 128 * 4.0 + 3 * (2 * 256 + 6 * 128) * 2.0));
}

TEST(Serving, StatesWithoutSpaceAreNotBlamedOnThePrompt) {
  Inputs inputs =
      serving_inputs(llama_node, "h100",
                     {config("qwen3-next-80b-a3b"), "inference.input_tokens=1000", "inference.output_tokens=1000"});
  inputs.architecture.recurrence.state_bytes = 1 << 30;  // of one entry: larger than any GPU
  const auto costs = PassCosts::make(inputs).value();
  const auto pool = PoolModel::make(inputs, *costs, inputs.plan, model::PoolKind::both);
  tests::expect_error(pool, model::ErrorKind::infeasible, "parallelism.tensor", "of states of one request");
}

// Qwen3-Next's config.json names no format of states, that of Qwen3.5 FP32.
TEST(Serving, AnEngineKeepsStatesInSixteenBitsWhereNoFormatIsStated) {
  const auto states = [](const std::string& model, double narrow) {
    return OnePool(tests::engine_inputs(llama_node, "h100", {tests::of_engine("narrow_states", narrow)},
                                        {config(model), "inference.input_tokens=1000", "inference.output_tokens=1000"}))
        ->memory()
        .states;
  };
  EXPECT_EQ(states("qwen3-next-80b-a3b", 0) - states("qwen3-next-80b-a3b", 1), 36 * 4 * 128 * 128 * 2.0);
  EXPECT_EQ(states("qwen3.5-35b-a3b", 0), states("qwen3.5-35b-a3b", 1));
}

// Keys, values and states of a request are those of one stage.
TEST(Serving, TheFullestStageHoldsARequest) {
  const auto bytes = [&](const std::string& tensor, const std::string& stages) {
    return OnePool(serving_inputs(llama_node, "h100",
                                  {config("nemotron-3-nano-30b-a3b"), "inference.input_tokens=1000",
                                   "inference.output_tokens=1000", "parallelism.tensor=" + tensor,
                                   "parallelism.pipeline=" + stages}))
        ->memory()
        .bytes_per_request();
  };
  EXPECT_LT(bytes("2", "4"), 0.5 * bytes("2", "1"));
  EXPECT_GE(bytes("2", "4"), 0.25 * bytes("2", "1"));
}

// 68.5e9 weights of one byte in the layers, over 8 GPUs of 2.8 TB/s; embedding and head have two bytes and are left
// out. No step is shorter.
TEST(Serving, AStepReadsItsWeights) {
  const OnePool pool(serving_inputs(llama_node, "h100"));
  const double ends = 2.0 * 128256 * 8192 * 2 / 8;
  EXPECT_NEAR((pool->memory().weights - ends) / 2.8e12 * 1e3, 3.05804, 0.002 * 3.05804);
  EXPECT_GT(pool->step_seconds(1),
            (pool->memory().weights - ends / 2) / pool.inputs.cluster.device.memory_bandwidth.value());
}

TEST(Serving, StepsTakeLongerWithMoreRequests) {
  for (const auto& [text, profile] : {std::pair(llama_node, "h100"), std::pair(tests::deepseek_decode_unit, "h800")}) {
    const OnePool pool(serving_inputs(text, profile));
    double last = 0;
    for (double batch = 1; batch <= 256; batch *= 1.3) {
      const double seconds = pool->step_seconds(batch);
      EXPECT_GE(seconds, last * (1 - 1e-9)) << batch;
      EXPECT_NEAR(pool->step(batch).seconds, seconds, 1e-12);
      last = seconds;
    }
  }
}

std::string node_of(const std::string& config, const std::string& degrees) {
  return fmt::format(R"(
[model]
config = "models/{}.json"
[cluster]
topology = "h800-rail-fat-tree"
gpus = 8
[parallelism]
{}
[inference]
concurrency = 0
)",
                     config, degrees);
}

double most_output(const std::string& text, const std::vector<std::string>& overrides) {
  const Inputs inputs = serving_inputs(text, "h800", overrides);
  return ServingPredictor(inputs).predict(inputs.plan).value().output_tokens_per_s;
}

// DeepSeek-V2 report (arXiv 2405.04434), section 3.2.3: 5.76 times the generation throughput of DeepSeek 67B on eight
// H800, with FP8 weights and keys and values of about 6 bits. Lengths, and the precision of 67B, are not published.
// Tensor parallelism is not the cause: it replicates the latent. Tokens go to the ranks of their experts alone, where
// engines of today gather all tokens of a node.
TEST(Serving, DeepseekV2GeneratesMoreThan67bByItsCacheAndItsGroups) {
  const std::string v2 = node_of("deepseek-v2", "expert = 8"), dense = node_of("deepseek-67b", "tensor = 8");
  double least = 1e9, most = 0, most_replicated = 0;
  for (const int input : {512, 2048})
    for (const char* cache : {"bf16", "int6"})
      for (const char* weights : {"fp8", "bf16"}) {
        const std::string length = fmt::format("inference.input_tokens={}", input);
        const std::string stored = fmt::format("inference.kv_cache=\"{}\"", cache);
        const double baseline = most_output(dense, {length, fmt::format("inference.weights=\"{}\"", weights)});
        const double ratio =
            most_output(v2, {length, stored, "inference.attention_data=8", "inference.dispatch=deepep-2025-06"}) /
            baseline;
        const double replicated = most_output(v2, {length, stored, "parallelism.tensor=8"}) / baseline;
        least = std::min(least, ratio);
        most = std::max(most, ratio);
        most_replicated = std::max(most_replicated, replicated);
        EXPECT_GT(ratio, 2 * replicated);
      }
  EXPECT_LT(least, 5.76);
  EXPECT_GT(most, 5.76);
  EXPECT_LT(most_replicated, 3);
}

}  // namespace
}  // namespace plumbline::sim
