#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/plan/alternative.h"
#include "model/plan/plan.h"
#include "model/plan/plan_key_table.h"
#include "model/plan/rollout.h"

namespace plumbline::tests {
namespace {

using namespace model;

// Words of FSDP and torchtitan set the keys of a plan.

// 64 GPUs, tensor 2, context 2: 32 ranks reduce a gradient.
std::string aliased_text(const std::string& parallelism) {
  return "[model]\nconfig = \"m.json\"\n[cluster]\ntopology = \"t\"\ngpus = 64\n[batch]\nsequence_length = 4096\n"
         "micro_batch_size = 1\nglobal_batch_size = 256\n[parallelism]\n" +
         parallelism;
}

Plan aliased(const std::string& parallelism, const std::vector<std::string>& overrides = {}) {
  const auto plan = read_plan(aliased_text(parallelism), "p.toml", overrides);
  EXPECT_TRUE(plan) << to_string(plan.error());
  return plan.value_or(Plan{});
}

std::string alias_refusal(const std::string& parallelism, const std::vector<std::string>& overrides = {}) {
  const auto plan = read_plan(aliased_text(parallelism), "p.toml", overrides);
  return plan ? "" : to_string(plan.error());
}

void expect_sharding(const Plan& plan, std::int64_t zero_stage, std::int64_t shard_group) {
  EXPECT_EQ(plan.parallelism.zero_stage, zero_stage);
  EXPECT_EQ(plan.parallelism.shard_group, shard_group);
}

TEST(PlanAlias, FsdpIsZero3OverAllRanksThatReduceAGradient) {
  expect_sharding(aliased("tensor = 2\ncontext = 2\nfsdp = 32\n"), 3, 0);
  expect_sharding(aliased("tensor = 2\nfsdp = true\n"), 3, 0);
  expect_sharding(aliased("", {"fsdp=64"}), 3, 0);
  expect_sharding(aliased("hsdp = \"2x32\"\n"), 3, 32);
  expect_sharding(aliased("hsdp = [4, 16]\n"), 3, 16);
  expect_sharding(aliased("hsdp = [1, 64]\n"), 3, 0);
  expect_sharding(aliased("ddp = 64\n"), 0, 0);
  expect_sharding(aliased("ddp = true\n"), 0, 0);
}

TEST(PlanAlias, WordsOfFsdpNameTheKeysThatMeanTheSame) {
  using testing::HasSubstr;
  EXPECT_THAT(alias_refusal("zero_stage = \"FULL_SHARD\"\n"), HasSubstr("FULL_SHARD is parallelism.zero_stage = 3"));
  EXPECT_THAT(alias_refusal("", {"parallelism.zero_stage=SHARD_GRAD_OP"}),
              HasSubstr("parallelism.zero_stage = 3, parallelism.reshard_after_forward = false"));
  EXPECT_THAT(alias_refusal("fsdp = \"HYBRID_SHARD\"\n"), HasSubstr("parallelism.shard_group = the GPUs of a node"));
  EXPECT_THAT(alias_refusal("fsdp = \"NO_SHARD\"\n"), HasSubstr("NO_SHARD is parallelism.zero_stage = 0"));
}

TEST(PlanAlias, TorchtitanCountsShardsWithoutContext) {
  const Plan plan = aliased("tp = 2\ncp = 2\ndp_replicate = 2\ndp_shard = 8\n");
  EXPECT_EQ(plan.parallelism.tensor, 2);
  EXPECT_EQ(plan.parallelism.context, 2);
  expect_sharding(plan, 3, 16);
  expect_sharding(aliased("dp_shard = -1\n"), 3, 0);
  expect_sharding(aliased("dp_replicate = 4\n"), 3, 16);
  expect_sharding(aliased("dp_shard = 1\ndp_replicate = 64\n"), 0, 0);
  expect_sharding(aliased("cp = 2\ndp_shard = 1\ndp_replicate = 32\n"), 3, 2);
  const Plan experts = aliased("", {"pp=2", "ep=4", "parallelism.etp=2"});
  EXPECT_EQ(experts.parallelism.pipeline, 2);
  EXPECT_EQ(experts.parallelism.expert, 4);
  EXPECT_EQ(experts.parallelism.expert_tensor, 2);
}

TEST(PlanAlias, OfTheCommandLineReplacesWhatTheFileGives) {
  expect_sharding(aliased("zero_stage = 1\n", {"parallelism.fsdp=64"}), 3, 0);
  expect_sharding(aliased("hsdp = \"2x32\"\n", {"fsdp=64"}), 3, 0);
  expect_sharding(aliased("hsdp = \"2x32\"\n", {"parallelism.zero_stage=2"}), 2, 32);
  EXPECT_EQ(aliased("tp = 2\n", {"parallelism.tensor=4"}).parallelism.tensor, 4);
  EXPECT_EQ(aliased("tensor = 2\n", {"tp=4"}).parallelism.tensor, 4);
}

TEST(PlanAlias, NamesAStackForCompileAndEager) {
  EXPECT_EQ(aliased("", {"compile=true"}).stack.name, "torchtitan-compile");
  EXPECT_EQ(aliased("", {"eager=true"}).stack.name, "pytorch-fsdp-eager");
  EXPECT_EQ(aliased("[stack]\ncompile = false\n").stack.name, "pytorch-fsdp-eager");
  EXPECT_EQ(aliased("[stack]\ncompile = true\n", {"stack.name=mine"}).stack.name, "mine");
}

TEST(PlanAlias, ThePrintedPlanHasTheKeys) {
  const std::string text = to_toml(aliased("tp = 2\nhsdp = \"2x16\"\n"));
  EXPECT_THAT(text, testing::HasSubstr("zero_stage = 3  # hsdp\nshard_group = 16  # hsdp\n"));
  EXPECT_THAT(text, testing::HasSubstr("tensor = 2\n"));
  EXPECT_TRUE(read_plan(text, "p.toml", {}));
}

TEST(PlanAlias, RefusesRanksThatDoNotFillTheGpus) {
  EXPECT_EQ(alias_refusal("fsdp = 32\n"),
            "p.toml:11: parallelism.fsdp: 32 ranks of data parallelism, but 64 GPUs / (tensor 1 * pipeline 1) are 64 "
            "(parallelism.hsdp=2x32 has 2 replicas; 32 ranks need cluster.gpus=32)");
  EXPECT_EQ(read_plan(aliased_text("fsdp = 32\n"), "p.toml", {}).error().kind, ErrorKind::infeasible);
  EXPECT_THAT(alias_refusal("context = 2\nddp = 32\n"), testing::HasSubstr("are 64, context 2 included"));
}

TEST(PlanAlias, RefusesOtherValuesAndTwoWordsForOneThing) {
  EXPECT_THAT(alias_refusal("fsdp = false\n"), testing::HasSubstr("or true for all, found 'false'"));
  EXPECT_THAT(alias_refusal("hsdp = 8\n"), testing::HasSubstr("such as 2x64, found '8'"));
  EXPECT_THAT(alias_refusal("dp_shard = 0\n"), testing::HasSubstr("or -1 for all"));
  EXPECT_THAT(alias_refusal("", {"compile=maybe"}), testing::HasSubstr("expected true or false"));
  EXPECT_THAT(alias_refusal("fsdp = 64\nzero_stage = 3\n"),
              testing::HasSubstr("parallelism.zero_stage is given too, and both set the same"));
  EXPECT_THAT(alias_refusal("fsdp = 64\nddp = 64\n"), testing::HasSubstr("is given too"));
  EXPECT_THAT(alias_refusal("tp = 64\ntensor = 64\n"), testing::HasSubstr("parallelism.tensor is given too"));
  EXPECT_THAT(alias_refusal("tp = 0\n"), testing::HasSubstr("parallelism.tensor: must be at least 1"));
  EXPECT_THAT(alias_refusal("", {"fsdpp=64"}), testing::HasSubstr("did you mean 'parallelism.fsdp'?"));
}

// The table of a plan's keys: every key has a line, and what it states is what the reader does.

constexpr const char* kTableText =
    "[model]\nconfig = \"m.json\"\n[cluster]\ntopology = \"t\"\ngpus = 64\n"
    "[batch]\nsequence_length = 4096\nmicro_batch_size = 1\nglobal_batch_size = 256\n";

// Keys of [rollout] belong to a plan with engines, whose batch follows: 1,024 samples of 1,024 tokens.
constexpr const char* kRolloutText =
    "[inference]\n[rollout]\nprompts = 1024\nanswers = 1\nprompt_tokens = 24\nanswer_tokens = 1000\n"
    "answer_tokens_sd = 100\nmax_answer_tokens = 2000\n";

std::string table_text(const std::string& key) {
  return std::string(kTableText) + (key.starts_with("rollout.") ? kRolloutText : "");
}

PlanKey table_key(const std::string& name) {
  const auto keys = find_plan_keys(name);
  EXPECT_TRUE(keys && keys->size() == 1) << name;
  return keys && !keys->empty() ? keys->front() : PlanKey{};
}

TEST(PlanKeyTable, HasEveryKeyWithMeaningTypeAndVersion) {
  std::vector<std::string> names;
  for (const PlanKey& key : plan_key_table()) {
    EXPECT_TRUE(key.meaning.ends_with('.')) << key.name;
    EXPECT_FALSE(key.type.empty()) << key.name;
    EXPECT_FALSE(key.since.empty()) << key.name;
    EXPECT_EQ(key.default_value.empty(), key.alias) << key.name;
    EXPECT_EQ(std::ranges::count(names, key.name), 0) << key.name;
    names.push_back(key.name);
  }
  for (const std::string& key : plan_keys()) {
    const bool other = (key.starts_with("model.") && key != "model.config") || key.ends_with(".phase");
    EXPECT_EQ(std::ranges::count(names, key), other ? 0 : 1) << key;
  }
}

TEST(PlanKeyTable, StatesDefaultsAndRangesOfTheReader) {
  EXPECT_EQ(table_key("cluster.gpus").default_value, "required");
  EXPECT_EQ(table_key("overlap.gradient_bucket_bytes").default_value, "40000000.0");
  EXPECT_EQ(table_key("parallelism.zero_stage").allowed, "0 to 3");
  EXPECT_EQ(table_key("cluster.background").allowed, "at least 0, below 1");
  EXPECT_EQ(table_key("recompute.policy").allowed, "one of none, selective, full");
  EXPECT_EQ(table_key("search.zero_stage").type, "list of integers");
  EXPECT_EQ(table_key("precision.gemm").words.front(), "fp8");
}

TEST(PlanKeyTable, ListsWordsThatTheReaderTakes) {
  for (const PlanKey& key : plan_key_table()) {
    if (key.alias || key.name.find(".phase.") != std::string::npos) continue;
    for (const std::string& word : key.words) {
      const bool list = key.type.starts_with("list of words");
      std::vector<std::string> overrides = {key.name + "=" + (list ? "[\"" + word + "\"]" : word)};
      if (key.name == "rollout.placement" && word != "colocated") overrides.emplace_back("rollout.gpus=8");
      const auto plan = read_plan(table_text(key.name), "p.toml", overrides);
      EXPECT_TRUE(plan) << to_string(plan.error());
    }
    const bool refuses = key.words.empty() || !read_plan(table_text(key.name), "p.toml", {key.name + "=no-such-word"});
    EXPECT_TRUE(refuses) << key.name;
  }
}

TEST(PlanKeyTable, FindsKeysSectionsAndLastParts) {
  EXPECT_EQ(find_plan_keys("batch")->size(), 5u);
  EXPECT_EQ(find_plan_keys("fsdp")->front().name, "parallelism.fsdp");
  EXPECT_EQ(find_plan_keys("tensor")->size(), 6u);  // of parallelism, overlap, search, both pools and rollouts
  EXPECT_EQ(find_plan_keys("model.hidden_size")->size(), 1u);
  EXPECT_THAT(to_string(find_plan_keys("parallelism.tensr").error()),
              testing::HasSubstr("did you mean 'parallelism.tensor'?"));
  EXPECT_THAT(plan_key_hint("parallelism"), testing::HasSubstr("plumbline show key parallelism lists its keys"));
  // A section that is there is not what was meant.
  EXPECT_THAT(to_string(find_plan_keys("inference.prompt").error()),
              testing::HasSubstr("plumbline show key inference lists its keys"));
  EXPECT_THAT(to_string(find_plan_keys("parallelism.sequence_length").error()),
              testing::HasSubstr("did you mean 'batch.sequence_length'?"));
}

}  // namespace
}  // namespace plumbline::tests

namespace plumbline::model {
namespace {

using testing::ElementsAre;

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

// What software may run otherwise than a plan has it.

// Returns the other values of a key, in order.
std::vector<std::string> others(const std::vector<UsualChange>& changes, std::string_view key) {
  std::vector<std::string> values;
  for (const UsualChange& change : changes)
    if (change.key == key) values.push_back(change.value);
  return values;
}

UsualChange first_of(const std::vector<UsualChange>& changes, std::string_view key) {
  return *std::ranges::find(changes, key, &UsualChange::key);
}

TEST(UsualChanges, HaveOneKeyOtherwise) {
  Plan plan;
  plan.recompute.policy = "selective";
  plan.places["recompute.policy"] = {"plan.toml", 3, ""};
  const auto changes = usual_changes(plan);
  EXPECT_THAT(others(changes, "recompute.policy"), ElementsAre("full", "none"));
  const UsualChange full = first_of(changes, "recompute.policy");
  EXPECT_EQ(full.plan.recompute.policy, "full");
  EXPECT_EQ(full.setting, "recompute.policy=full");
  EXPECT_EQ(full.now, "selective");
  EXPECT_FALSE(full.open);
  EXPECT_EQ(first_of(changes, "overlap.gradient_reduce").now, "on");
  EXPECT_THAT(others(changes, "overlap.gradient_reduce"), ElementsAre("off"));
}

TEST(UsualChanges, AKeyThatAStackGaveIsOpen) {
  Plan plan;
  EXPECT_TRUE(first_of(usual_changes(plan), "stack.graphs").open) << "the default";
  plan.stack.graphs = {"full_iteration"};
  plan.places["stack.graphs"] = {"made.toml", 1, "stack made"};
  const auto changes = usual_changes(plan);
  EXPECT_TRUE(first_of(changes, "stack.graphs").open);
  EXPECT_EQ(first_of(changes, "stack.graphs").now, "full");
  EXPECT_THAT(others(changes, "stack.graphs"), ElementsAre("partial", "none"));
}

TEST(UsualChanges, SoftwareThatLacksAValueIsNotOfferedIt) {
  Plan plan;
  plan.parallelism.expert = 8;
  plan.stack.dispatcher = "alltoall";
  EXPECT_THAT(others(usual_changes(plan), "stack.dispatcher"), ElementsAre("hybridep", "deepep"));
  plan.software["stack.dispatcher"] = {"made", {"alltoall", "deepep"}};
  plan.software["stack.graphs"] = {"made", {"none"}};
  const auto changes = usual_changes(plan);
  EXPECT_THAT(others(changes, "stack.dispatcher"), ElementsAre("deepep"));
  EXPECT_THAT(others(changes, "stack.graphs"), testing::IsEmpty());
  plan.parallelism.expert = 1;
  EXPECT_THAT(others(usual_changes(plan), "stack.dispatcher"), testing::IsEmpty()) << "no tokens leave their rank";
}

TEST(UsualChanges, OfServingAreThoseOfInference) {
  for (const UsualChange& change : usual_changes(Plan(), SoftwareOf::serving))
    EXPECT_TRUE(change.key.starts_with("inference.")) << change.key;
}

}  // namespace
}  // namespace plumbline::model
