#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/imports.h"

namespace plumbline::model::configurations {
namespace {

using testing::HasSubstr;
using tests::imported, tests::refusal;

std::string with_model(const std::string& kind) {
  return "model:\n  dtype: bfloat16\n  model_config:\n    " + kind +
         ": true\n    hidden_size: 256\n    num_hidden_layers: 12\n    num_attention_heads: 4\n"
         "parallelism:\n  dp: 4\n  tp: 2\n  pp: 2\n  pp_engine: 1f1b\n  tp_mode: REDUCE_SCATTER\n"
         "tokens:\n  micro_batch_size: 3\n  batch_accumulation_per_replica: 8\n  sequence_length: 2048\n"
         "optimizer:\n  zero_stage: 1\n  accumulate_grad_in_fp32: true\n  clip_grad: 1.0\n";
}

TEST(Nanotron, DegreesBatchAndModel) {
  const auto read = imported("nanotron", with_model("is_llama_config"));
  EXPECT_EQ(read.plan.cluster.gpus, 16);  // 4 x 2 x 2
  EXPECT_TRUE(read.plan.parallelism.sequence);
  EXPECT_EQ(read.plan.batch.global_batch_size, 96);  // 3 x 8 x 4
  EXPECT_EQ(read.plan.schedule.kind, "1f1b");
  EXPECT_EQ(read.plan.parallelism.zero_stage, 1);
  EXPECT_EQ(read.plan.precision.master_weights, Precision::fp32);
  EXPECT_FALSE(read.plan.overlap.gradient_reduce) << "gradients in FP32 with ZeRO have no DDP";
  EXPECT_EQ(read.plan.attention.kernel, "flash2");
  EXPECT_THAT(read.config_json.value_or(""), HasSubstr("\"model_type\": \"llama\""));
}

TEST(Nanotron, ExpertRanksAreDataParallelOnes) {
  std::string text = with_model("is_llama_config");
  text.replace(text.find("  dp: 4"), 7, "  dp: 4\n  expert_parallel_size: 4");
  EXPECT_EQ(imported("nanotron", text).plan.cluster.gpus, 16);  // 4 x 2 x 2
}

TEST(Nanotron, OtherModelsNeedAName) {
  EXPECT_THAT(refusal("nanotron", with_model("is_starcoder2_config")), HasSubstr("--model names a model"));
}

}  // namespace
}  // namespace plumbline::model::configurations
