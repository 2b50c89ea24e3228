// Words of FSDP and torchtitan set the keys of a plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/plan/plan.h"

namespace plumbline::tests {
namespace {

using namespace model;

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

}  // namespace
}  // namespace plumbline::tests
