// A trained model generates the same tokens from keys and values that it keeps as from prefills of all tokens so far,
// and the same on any division of an instance, whatever divided the training.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "real/host/run.h"
#include "tests/support/real/real_training.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

using Tokens = std::vector<std::int32_t>;

struct Instance {
  std::int64_t tensor = 1, attention_data = 1, expert = 1;
};

// A dense model whose queries share keys and values and see a window.
model::Architecture small_dense() {
  model::Architecture a = small_moe();
  a.model_type = "llama";
  a.attention = model::AttentionKind::grouped_query;
  a.latent = {};
  a.key_value_heads = 2;
  a.head_dim = 8;
  a.experts = {};
  a.biases.query_key_value = true;
  a.window = {.tokens = 5};
  a.tied_embedding = true;
  return a;
}

real::RunInput trained_input(const model::Architecture& architecture, std::int64_t gpus, std::int64_t expert) {
  real::RunInput input{small_plan(), architecture, {}};
  input.plan.parallelism.expert = expert;
  input.plan.cluster.gpus = gpus;
  input.cluster.gpus = input.cluster.gpus_per_node = gpus;
  return input;
}

void train(const real::RunInput& input, const std::string& folder, std::int64_t steps = 20,
           double learning_rate = 1e-2) {
  real::RunOptions options;
  options.steps = steps;
  options.learning_rate = learning_rate;
  options.checkpoint = folder;
  ASSERT_TRUE(real::host::run_in_process(input, options, {.clock = real::host::ClockKind::cpu}, {}));
}

real::RunInput serving_input(const model::Architecture& architecture, const Instance& instance) {
  real::RunInput input = trained_input(architecture, instance.tensor * instance.attention_data, instance.expert);
  input.plan.parallelism.tensor = instance.tensor;
  model::Plan::Inference& inference = input.plan.inference;
  inference.given = true;
  inference.attention_data = instance.attention_data;
  inference.concurrency = 4;
  inference.input_tokens = 9;
  inference.weights = model::Precision::fp32;
  inference.kv_cache = "fp32";
  return input;
}

real::Generation generated(const real::RunInput& input, const real::GenerateOptions& options) {
  auto generation = real::host::generate_in_process(input, options, {.clock = real::host::ClockKind::cpu});
  EXPECT_TRUE(generation) << to_string(generation.error());
  return generation ? *generation : real::Generation();
}

// Returns what a request generates when every token is computed by a prefill of all tokens before it.
std::vector<Tokens> by_prefills(real::RunInput input, real::GenerateOptions options, std::vector<Tokens> prompts,
                                std::int64_t tokens) {
  options.tokens = 1;
  std::vector<Tokens> outputs(prompts.size());
  for (std::int64_t token = 0; token < tokens; ++token)
    for (std::size_t request = 0; request < prompts.size(); ++request) {
      options.prompt.assign(prompts[request].begin(), prompts[request].end());
      input.plan.inference.concurrency = 1;
      const std::int32_t next = generated(input, options).outputs.at(0).at(0);
      prompts[request].push_back(next);
      outputs[request].push_back(next);
    }
  return outputs;
}

class Generation : public testing::TestWithParam<bool> {
 protected:
  model::Architecture architecture() const {
    model::Architecture a = GetParam() ? small_moe() : small_dense();
    a.vocabulary = 256;
    return a;
  }
};

TEST_P(Generation, FromACacheIsThatOfPrefills) {
  const TemporaryDirectory folder;
  train(trained_input(architecture(), GetParam() ? 2 : 1, GetParam() ? 2 : 1), folder.path());
  const real::GenerateOptions options{.tokens = 8, .checkpoint = folder.path()};
  const real::RunInput input = serving_input(architecture(), {});
  const real::Generation one = generated(input, options);
  EXPECT_EQ(one.outputs.size(), 4U);
  EXPECT_EQ(one.decode_s.size(), 7U);
  EXPECT_EQ(one.trained_steps, 20);
  EXPECT_EQ(one.outputs, by_prefills(input, options, one.prompts, 8));
}

TEST_P(Generation, IsTheSameOnAnyDivision) {
  const TemporaryDirectory folder;
  train(trained_input(architecture(), 1, 1), folder.path());
  const real::GenerateOptions options{.tokens = 12, .checkpoint = folder.path()};
  const real::Generation one = generated(serving_input(architecture(), {}), options);
  std::vector<Instance> divisions = {{2, 1, 1}};
  if (GetParam()) divisions = {{2, 1, 1}, {2, 1, 2}, {1, 2, 2}, {2, 2, 4}};
  for (const Instance& instance : divisions) {
    const real::Generation other = generated(serving_input(architecture(), instance), options);
    EXPECT_EQ(other.outputs, one.outputs)
        << instance.tensor << " " << instance.attention_data << " " << instance.expert;
    EXPECT_EQ(other.prompts, one.prompts);
  }
}

// At a learning rate of 0 a checkpoint has the initial parameters, which do not depend on the division.
TEST_P(Generation, IsTheSameWhateverDividedTheTraining) {
  struct Division {
    std::string schedule;
    std::int64_t pipeline, tensor, data, expert, zero_stage;
  };
  std::vector<Division> divisions = {{"1f1b", 1, 1, 1, 1, 0}, {"1f1b", 1, 2, 1, 1, 0}, {"zb-h1", 2, 1, 2, 1, 1}};
  if (GetParam()) divisions.insert(divisions.end(), {{"dualpipe", 2, 1, 2, 2, 1}, {"1f1b", 1, 2, 2, 4, 0}});
  std::vector<std::vector<Tokens>> outputs;
  for (const Division& d : divisions) {
    const TemporaryDirectory folder;
    model::Architecture architecture = this->architecture();
    architecture.tied_embedding = false;  // a tied table may not lie on two ranks
    real::RunInput input = trained_input(architecture, d.pipeline * d.tensor * d.data, d.expert);
    input.plan.schedule.kind = d.schedule;
    input.plan.parallelism.pipeline = d.pipeline;
    input.plan.parallelism.tensor = d.tensor;
    input.plan.parallelism.sequence = d.tensor > 1;  // which experts need
    input.plan.parallelism.zero_stage = d.zero_stage;
    train(input, folder.path(), 1, 0);
    outputs.push_back(generated(serving_input(architecture, {}), {.tokens = 6, .checkpoint = folder.path()}).outputs);
    EXPECT_EQ(outputs.back(), outputs.front()) << d.schedule << " " << d.tensor << " " << d.expert;
  }
}

TEST_P(Generation, WithATemperatureFollowsTheSeed) {
  const TemporaryDirectory folder;
  train(trained_input(architecture(), 1, 1), folder.path());
  real::GenerateOptions options{.tokens = 12, .checkpoint = folder.path(), .temperature = 1};
  const real::RunInput input = serving_input(architecture(), {});
  const std::vector<Tokens> first = generated(input, options).outputs;
  EXPECT_EQ(generated(input, options).outputs, first);
  EXPECT_EQ(generated(serving_input(architecture(), {1, GetParam() ? 2 : 1, GetParam() ? 2 : 1}), options).outputs,
            first);
  options.seed = 2;
  EXPECT_NE(generated(input, options).outputs, first);
  options.temperature = 1e-6;
  const std::vector<Tokens> cold = generated(input, options).outputs;
  options.temperature = 0;
  EXPECT_EQ(generated(input, options).outputs, cold);
}

INSTANTIATE_TEST_SUITE_P(Models, Generation, testing::Values(true, false),
                         [](const auto& test) { return test.param ? "latent_experts" : "grouped_dense"; });

TEST(GenerationErrors, NameTheKey) {
  const TemporaryDirectory folder;
  const auto error = [&](const real::RunInput& input) {
    const auto generation = real::host::generate_in_process(input, {.tokens = 1, .checkpoint = folder.path()},
                                                            {.clock = real::host::ClockKind::cpu});
    return generation ? std::string() : generation.error().key;
  };
  real::RunInput input = serving_input(small_moe(), {});
  input.plan.inference.given = false;
  EXPECT_EQ(error(input), "inference");
  input = serving_input(small_moe(), {});
  input.plan.inference.weights = model::Precision::fp8;
  EXPECT_EQ(error(input), "inference.weights");
  input.plan.inference.weights = model::Precision::bf16;
  input.plan.inference.kv_cache = "fp8";
  EXPECT_EQ(error(input), "inference.kv_cache");
  input = serving_input(small_moe(), {1, 2, 2});
  input.plan.inference.concurrency = 3;
  EXPECT_EQ(error(input), "inference.concurrency");
}

}  // namespace
}  // namespace plumbline::tests
