// Layouts that a plan's software refuses, by the rules that its stack lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model/plan/layout.h"
#include "model/plan/software.h"
#include "tests/support/architectures.h"
#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

using testing::HasSubstr;
using tests::architecture;

using Counts = std::vector<std::int64_t>;

// Returns a plan of 8 GPUs with one sequence in a micro-batch, and software with these rules.
Plan plan_with(const std::vector<std::string>& rules) {
  Plan plan;
  plan.cluster.gpus = 8;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 16};
  plan.software[std::string(rules_key)] = {"made", rules};
  return plan;
}

// Returns why the layout of the plan is refused; empty: it is not.
std::string refusal(const Plan& plan, const std::string& model = "llama-3-8b") {
  const auto layout = make_layout(plan, architecture(model));
  if (layout) return "";
  EXPECT_EQ(layout.error().kind, ErrorKind::infeasible);
  return to_string(layout.error());
}

std::vector<std::string> warnings(const Plan& plan) {
  const auto layout = make_layout(plan, architecture("llama-3-8b"));
  EXPECT_TRUE(layout) << to_string(layout.error());
  return layout ? layout_warnings(plan, *layout) : std::vector<std::string>();
}

Plan interleaved(const std::string& rule, std::int64_t batch) {
  Plan plan = plan_with({rule});
  plan.parallelism.pipeline = 4;  // two data-parallel ranks
  plan.schedule.kind = "interleaved";
  plan.schedule.virtual_stages = 2;
  plan.batch.global_batch_size = batch;
  return plan;
}

TEST(SoftwareRules, WholeBatches) {
  Plan plan = plan_with({"whole-batches"});
  EXPECT_EQ(refusal(plan), "");
  plan.batch.global_batch_size = 20;
  EXPECT_THAT(refusal(plan), HasSubstr("batch.global_batch_size: stack made refuses it (whole-batches): 20 sequences"));
  EXPECT_THAT(refusal(plan), HasSubstr("use 16 or 24"));
  plan.software.clear();
  EXPECT_EQ(refusal(plan), "");
  EXPECT_EQ(warnings(plan).size(), 1U);
}

// 16, 12, 10 and 6 sequences are 8, 6, 5 and 3 micro-batches for 4 ranks.
TEST(SoftwareRules, InterleavingNeedsAMultipleOfTheRanks) {
  EXPECT_EQ(refusal(interleaved("interleaved-multiple", 16)), "");
  for (const std::int64_t batch : {12, 10, 6})
    EXPECT_THAT(refusal(interleaved("interleaved-multiple", batch)), HasSubstr("no multiple of 4 pipeline ranks"));
  EXPECT_THAT(refusal(interleaved("interleaved-multiple", 12)), HasSubstr("batch.global_batch_size 8 or 16"));
  Plan plain = interleaved("interleaved-multiple", 10);
  plain.schedule = {};
  EXPECT_EQ(refusal(plain), "");
}

TEST(SoftwareRules, InterleavingByWiderGroupsIsAnArgumentMore) {
  EXPECT_THAT(warnings(interleaved("interleaved-groups", 16)), testing::IsEmpty());
  EXPECT_THAT(warnings(interleaved("interleaved-groups", 10)),
              testing::ElementsAre(HasSubstr("--microbatch-group-size-per-virtual-pipeline-stage 5")));
  EXPECT_THAT(refusal(interleaved("interleaved-groups", 6)), HasSubstr("3 micro-batches are fewer than 4"));
}

// 9 micro-batches on 4 ranks are two rounds, 5 are one.
TEST(SoftwareRules, InterleavingByRounds) {
  EXPECT_EQ(refusal(interleaved("interleaved-rounds", 10)), "");
  EXPECT_THAT(refusal(interleaved("interleaved-rounds", 18)), HasSubstr("do not divide over 2 rounds"));
}

TEST(SoftwareRules, ExpertsOverlapWithAPipelineOfVirtualStages) {
  Plan plan = plan_with({"expert-overlap"});
  plan.schedule.kind = "interleaved-overlap";
  plan.stack.dispatcher = "alltoall";
  const std::string moe = "deepseek-v2-lite";
  EXPECT_THAT(refusal(plan), HasSubstr("needs a model with experts"));
  EXPECT_THAT(refusal(plan, moe), HasSubstr("experts on several ranks"));
  plan.parallelism.expert = 2;
  plan.parallelism.pipeline = 2;
  EXPECT_THAT(refusal(plan, moe), HasSubstr("schedule.virtual_stages: stack made refuses it"));
  plan.schedule.virtual_stages = 2;
  EXPECT_EQ(refusal(plan, moe), "");
  const auto changed = [&](auto change) {
    Plan other = plan;
    change(other);
    return refusal(other, moe);
  };
  EXPECT_THAT(changed([](Plan& p) { p.recompute.policy = "full"; }), HasSubstr("computed again as a whole"));
  EXPECT_THAT(changed([](Plan& p) { p.stack.dispatcher = "allgather"; }), HasSubstr("use alltoall"));
  EXPECT_THAT(changed([](Plan& p) { p.precision.gemm = Precision::fp32; }), HasSubstr("BF16 or FP16"));
  EXPECT_EQ(changed([](Plan& p) { p.schedule.kind = "interleaved"; }), "");
}

// The plan's own numbers are refused; a rule stands for the split of the software, with a warning.
TEST(SoftwareRules, LayersAreEvenButForTheEnds) {
  Plan plan = plan_with({"even-layers"});
  plan.parallelism.pipeline = 4;
  EXPECT_THAT(warnings(plan), testing::IsEmpty());
  plan.schedule.layers_per_stage = {Counts{7, 9, 9, 7}};
  EXPECT_THAT(refusal(plan), HasSubstr("schedule.layers_per_stage: stack made refuses it (even-layers): 32 layers"));
  plan.schedule.layers_per_stage.found = true;
  EXPECT_EQ(warnings(plan).size(), 1U);
  plan.software[std::string(rules_key)].values = {"uneven-ends"};
  plan.schedule.layers_per_stage.found = false;
  EXPECT_EQ(refusal(plan), "");
  plan.schedule.layers_per_stage = {Counts{7, 8, 9, 8}};
  EXPECT_THAT(refusal(plan), HasSubstr("but for the first and the last"));
}

TEST(SoftwareRules, ShardedGradientsAndPipelines) {
  Plan plan = plan_with({"zero-without-pipeline"});
  plan.parallelism.zero_stage = 2;
  EXPECT_EQ(refusal(plan), "");
  plan.parallelism.pipeline = 2;
  EXPECT_THAT(refusal(plan), HasSubstr("(ZeRO 2) do not go with a pipeline"));
  plan.software[std::string(rules_key)].values = {"fsdp-without-pipeline"};
  EXPECT_EQ(warnings(plan).size(), 1U);
  plan.software[std::string(rules_key)].values = {"fsdp-gradients"};
  plan.parallelism.zero_stage = 1;
  EXPECT_THAT(warnings(plan), testing::IsEmpty());
  plan.parallelism.pipeline = 1;
  EXPECT_EQ(warnings(plan).size(), 1U);
  plan.software[std::string(rules_key)].values = {"fsdp-alone"};
  plan.parallelism.zero_stage = 3;
  EXPECT_EQ(refusal(plan), "");
  plan.parallelism.expert = 2;
  EXPECT_THAT(refusal(plan, "deepseek-v2-lite"), HasSubstr("neither a pipeline nor experts"));
}

TEST(SoftwareRules, WhatIsComputedAgain) {
  Plan plan = plan_with({"core-attention-alone"});
  plan.recompute = {"selective", {"rmsnorm", "swiglu"}, {}};
  EXPECT_THAT(refusal(plan), HasSubstr("that of core_attention alone"));
  plan.recompute.operators = selective_operators(plan);
  EXPECT_EQ(refusal(plan), "");
  plan.software[std::string(rules_key)].values = {"recompute-modules"};
  EXPECT_THAT(selective_operators(plan), testing::IsEmpty());
  plan.recompute.operators = {"rmsnorm", "swiglu"};
  EXPECT_THAT(refusal(plan), HasSubstr("leave swiglu out"));
  EXPECT_EQ(refusal(plan, "deepseek-v2-lite"), "");
  plan.precision.gemm = Precision::fp8_tensor;
  plan.precision.scaling = "delayed";
  EXPECT_THAT(refusal(plan, "deepseek-v2-lite"), HasSubstr("delayed scaling"));
}

TEST(SoftwareRules, SelectiveRecomputationNamesItsOperators) {
  Plan plan = plan_with({});
  plan.recompute.policy = "selective";
  EXPECT_THAT(refusal(plan), HasSubstr("recompute.operators: selective recomputation without operators"));
  EXPECT_THAT(refusal(plan), HasSubstr("core_attention"));
}

}  // namespace
}  // namespace plumbline::model
