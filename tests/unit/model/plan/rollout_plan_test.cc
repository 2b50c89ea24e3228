#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/plan/alternative.h"
#include "model/plan/plan.h"
#include "model/plan/rollout.h"

namespace plumbline::model {
namespace {

// 64 prompts of 200 tokens with 8 answers of 800 tokens are 512 samples of 1,000 tokens in four updates; two
// data-parallel ranks have micro-batches of one sequence.
const std::string text = R"([model]
config = "m.json"
[cluster]
topology = "h100-dgx"
gpus = 8
[parallelism]
tensor = 4
zero_stage = 3
[batch]
sequence_length = 4096
micro_batch_size = 1
[inference]
engine = "vllm"
prefix_hit_rate = 0.5
[rollout]
prompts = 64
answers = 8
prompt_tokens = 200
answer_tokens = 800
answer_tokens_sd = 500
max_answer_tokens = 3000
updates = 4
)";

Result<Plan> with_rollouts(const std::vector<std::string>& overrides = {}, const std::string& from = text) {
  return read_plan(from, "plan.toml", overrides);
}

Error refused(const std::vector<std::string>& overrides, const std::string& from = text) {
  const auto plan = with_rollouts(overrides, from);
  EXPECT_FALSE(plan);
  return plan ? Error{} : plan.error();
}

// 512 samples of 1,000 tokens in four updates are 128,000 tokens each: 31.25 sequences, so 32 of two ranks.
TEST(RolloutPlan, TheBatchHoldsTheSamplesOfAnUpdate) {
  const Plan plan = with_rollouts().value();
  EXPECT_TRUE(plan.rollout.given);
  EXPECT_FALSE(is_deployment(plan));
  EXPECT_EQ(plan.batch.global_batch_size, 32);
  EXPECT_EQ(plan.batch.document_length, 1000);
  EXPECT_EQ(with_rollouts({"batch.micro_batch_size=3"})->batch.global_batch_size, 36);
  EXPECT_EQ(with_rollouts({"rollout.updates=1"})->batch.global_batch_size, 126);
  EXPECT_EQ(with_rollouts({"batch.document_length=700"})->batch.document_length, 700);
}

// The printed plan has "global_batch_size = 32  # rollout".
TEST(RolloutPlan, ValuesAreWithoutWhatImpliesThem) {
  EXPECT_EQ(plan_values(with_rollouts().value()).at("batch.global_batch_size"), "32");
}

TEST(RolloutPlan, IsPrintedAndReadBack) {
  const Plan plan = with_rollouts({"rollout.placement=split", "rollout.gpus=16"}).value();
  const std::string printed = to_toml(plan);
  EXPECT_NE(printed.find("\n[rollout]\nalgorithm = \"grpo\"\nprompts = 64\n"), std::string::npos) << printed;
  EXPECT_NE(printed.find("\nglobal_batch_size = 32  # rollout\n"), std::string::npos) << printed;
  EXPECT_EQ(to_toml(with_rollouts({}, printed).value()).find("[rollout]") == std::string::npos, false);
  EXPECT_EQ(with_rollouts({}, printed)->batch.global_batch_size, 32);
  const std::string without = text.substr(0, text.find("[rollout]"));
  EXPECT_EQ(to_toml(with_rollouts({"batch.global_batch_size=32"}, without).value()).find("rollout"), std::string::npos);
}

TEST(RolloutPlan, AlgorithmsDecideWhatRunsUnlessKeysDo) {
  const auto passes = [](const std::vector<std::string>& overrides) {
    return passes_of(with_rollouts(overrides).value());
  };
  const RolloutPasses grpo = passes({}), ppo = passes({"rollout.algorithm=ppo"}),
                      dapo = passes({"rollout.algorithm=dapo"});
  EXPECT_TRUE(grpo.reference && !grpo.critic && grpo.oversampling == 1);
  EXPECT_TRUE(ppo.reference && ppo.critic && ppo.oversampling == 1);
  EXPECT_TRUE(!dapo.reference && !dapo.critic && dapo.oversampling == 3);
  const RolloutPasses stated =
      passes({"rollout.algorithm=dapo", "rollout.reference=true", "rollout.critic=true", "rollout.oversampling=1.5"});
  EXPECT_TRUE(stated.reference && stated.critic && stated.oversampling == 1.5);
}

// Of the input tokens that no earlier request cached, one of the eight answers to a prompt computes them.
TEST(RolloutPlan, EnginesAreADeploymentOfTheirOwn) {
  const Plan engines =
      engine_plan(with_rollouts({"rollout.placement=split", "rollout.gpus=16", "rollout.tensor=2"}).value());
  EXPECT_FALSE(engines.rollout.given);
  EXPECT_EQ(engines.cluster.gpus, 16);
  EXPECT_EQ(engines.parallelism.tensor, 2);
  EXPECT_EQ(engines.parallelism.zero_stage, 0);
  EXPECT_EQ(engines.inference.input_tokens, 200);
  EXPECT_EQ(engines.inference.output_tokens, 800);
  EXPECT_DOUBLE_EQ(engines.inference.prefix_hit_rate, 1 - 0.5 / 8);
  EXPECT_EQ(engine_plan(with_rollouts().value()).cluster.gpus, 8);
}

TEST(RolloutPlan, RefusesKeysThatDoNotBelongTogether) {
  const auto expect = [](const std::vector<std::string>& overrides, const std::string& key, ErrorKind kind) {
    const Error error = refused(overrides);
    EXPECT_EQ(error.key, key) << to_string(error);
    EXPECT_EQ(error.kind, kind) << to_string(error);
    EXPECT_FALSE(error.hint.empty()) << to_string(error);
  };
  expect({"rollout.gpus=8"}, "rollout.gpus", ErrorKind::input);
  expect({"rollout.placement=split"}, "rollout.gpus", ErrorKind::input);
  expect({"rollout.staleness=1"}, "rollout.staleness", ErrorKind::input);
  expect({"rollout.placement=split", "rollout.gpus=8", "rollout.staleness=1"}, "rollout.staleness", ErrorKind::input);
  expect({"rollout.placement=split", "rollout.gpus=8", "rollout.offload=true"}, "rollout.offload", ErrorKind::input);
  expect({"rollout.reward_model=m.json", "rollout.reward_s=1"}, "rollout.reward_s", ErrorKind::input);
  expect({"run.tokens=1e9"}, "run.tokens", ErrorKind::input);
  expect({"inference.disaggregated=true"}, "inference.disaggregated", ErrorKind::input);
  expect({"inference.stream_interval=10"}, "inference.stream_interval", ErrorKind::input);
  expect({"batch.global_batch_size=64"}, "batch.global_batch_size", ErrorKind::input);
  expect({"rollout.placement=together"}, "rollout.placement", ErrorKind::input);
  expect({"rollout.oversampling=0.5"}, "rollout.oversampling", ErrorKind::input);
  expect({"rollout.answer_tokens=3001"}, "rollout.answer_tokens", ErrorKind::infeasible);
  expect({"rollout.max_answer_tokens=3897"}, "batch.sequence_length", ErrorKind::infeasible);
  expect({"rollout.prompts=200000"}, "rollout.prompts", ErrorKind::infeasible);
  expect({"batch.micro_batch_size=600000000"}, "batch.micro_batch_size", ErrorKind::infeasible);
  EXPECT_TRUE(with_rollouts({"rollout.max_answer_tokens=3896"}));
}

TEST(RolloutPlan, NamesWhatIsMissingAndWhatIsMisspelt) {
  std::string without = text;
  without.replace(without.find("[inference]"),
                  std::string("[inference]\nengine = \"vllm\"\nprefix_hit_rate = 0.5\n").size(), "");
  EXPECT_EQ(refused({}, without).key, "rollout");
  std::string shorter = text;
  shorter.replace(shorter.find("answers = 8\n"), std::string("answers = 8\n").size(), "");
  EXPECT_EQ(refused({}, shorter).key, "rollout.answers");
  const Error misspelt = refused({}, text + "max_answer_token = 3000\n");
  EXPECT_EQ(misspelt.key, "rollout.max_answer_token");
  EXPECT_EQ(misspelt.line, 23);
  EXPECT_NE(misspelt.hint.find("rollout.max_answer_tokens"), std::string::npos) << misspelt.hint;
}

}  // namespace
}  // namespace plumbline::model
