#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/imports.h"

namespace plumbline::model::configurations {
namespace {

using testing::HasSubstr;
using tests::imported, tests::noted, tests::refusal;

const std::string model_of_llama = "model:\n  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B\n";
const std::string batch_of_32 =
    "step_scheduler:\n  global_batch_size: 32\n  local_batch_size: 2\ndataset:\n  seq_len: 4096\n";

TEST(Automodel, StatesHaveTheFormatOfTheParameters) {
  const auto plain = imported("automodel", model_of_llama + batch_of_32 +
                                               "distributed:\n  dp_size: 4\n  tp_size: 2\n  sequence_parallel: true\n"
                                               "  activation_checkpointing: true\n");
  const Plan& plan = plain.plan;
  EXPECT_EQ(plan.cluster.gpus, 8);  // 4 x 2
  EXPECT_EQ(plan.parallelism.tensor, 2);
  EXPECT_TRUE(plan.parallelism.sequence);
  EXPECT_EQ(plan.parallelism.zero_stage, 3);
  EXPECT_TRUE(plan.parallelism.reshard_after_forward);
  EXPECT_EQ(plan.batch.micro_batch_size, 2);
  EXPECT_EQ(plan.batch.sequence_length, 4096);
  EXPECT_EQ(plan.recompute.policy, "full");
  EXPECT_EQ(plan.precision.master_weights, Precision::bf16);
  EXPECT_EQ(plan.precision.optimizer_moments, Precision::bf16);
  EXPECT_EQ(plan.precision.gradients, Precision::bf16);
  EXPECT_EQ(plan.precision.gradient_reduce, Precision::fp32);
  EXPECT_TRUE(plan.optimizer.gradient_clipping);
  EXPECT_EQ(plan.parallelism.reduce_after, "run") << "32 are four times 2 x 4";
  const auto wide = imported("automodel", "model:\n  pretrained_model_name_or_path: a/b-1\n  torch_dtype: float32\n" +
                                              batch_of_32 + "distributed:\n  dp_size: 16\n");
  EXPECT_EQ(wide.plan.precision.master_weights, Precision::fp32);
  EXPECT_EQ(wide.plan.precision.gradients, Precision::fp32);
  const auto fused =
      imported("automodel", model_of_llama + batch_of_32 +
                                "distributed:\n  dp_size: 16\noptimizer:\n"
                                "  _target_: transformer_engine.pytorch.optimizers.fused_adam.FusedAdam\n"
                                "  master_weights: true\n  exp_avg_dtype: torch.bfloat16\n");
  EXPECT_EQ(fused.plan.precision.master_weights, Precision::fp32);
  EXPECT_EQ(fused.plan.precision.optimizer_moments, Precision::bf16);
}

TEST(Automodel, StrategiesReduceInFormatsOfTheirOwn) {
  const auto reduced = [](const std::string& section) {
    return imported("automodel", model_of_llama + batch_of_32 + "distributed:\n  dp_size: 16\n" + section)
        .plan.precision.gradient_reduce;
  };
  EXPECT_EQ(reduced(""), Precision::fp32);
  EXPECT_EQ(reduced("  mp_policy:\n    param_dtype: bfloat16\n"), Precision::bf16) << "as PyTorch's policy";
  EXPECT_EQ(reduced("  mp_policy:\n    param_dtype: bfloat16\n    reduce_dtype: float32\n"), Precision::fp32);
  EXPECT_EQ(reduced("  _target_: nemo_automodel.components.distributed.fsdp2.FSDP2Manager\n"), Precision::bf16);
  EXPECT_EQ(reduced("  strategy: ddp\n"), Precision::bf16) << "that of the weights";
  EXPECT_EQ(reduced("  strategy: megatron_fsdp\n"), Precision::bf16);
  EXPECT_EQ(reduced("  strategy: megatron_fsdp\n  grad_reduce_in_fp32: true\n"), Precision::fp32);
  const auto kept = imported("automodel", model_of_llama + batch_of_32 +
                                              "distributed:\n  dp_size: 16\n  strategy: megatron_fsdp\n"
                                              "  preserve_fp32_weights: true\n");
  EXPECT_EQ(kept.plan.precision.master_weights, Precision::fp32);
}

TEST(Automodel, AttentionDecidesHowContextRanksSend) {
  const auto method = [](const std::string& backend) {
    return imported("automodel", model_of_llama + backend + batch_of_32 + "distributed:\n  dp_size: 8\n  cp_size: 2\n")
        .plan.parallelism.context_method;
  };
  EXPECT_EQ(method(""), "all-gather") << "a dense model has PyTorch's attention";
  EXPECT_EQ(method("  backend:\n    attn: te\n"), "ring");
  EXPECT_EQ(method("  backend:\n    attn: sdpa\n"), "all-gather");
}

TEST(Automodel, StagesAreRoundedOverRanks) {
  const auto of = [](const std::string& pipeline) {
    return model_of_llama +
           "step_scheduler:\n  global_batch_size: 64\n  local_batch_size: 8\ndataset:\n  seq_length: 2048\n"
           "distributed:\n  dp_size: 2\n  pp_size: 4\n  pipeline:\n    pp_schedule: interleaved1f1b\n" +
           pipeline;
  };
  const auto even = imported("automodel", of("    layers_per_stage: 4\n    pp_microbatch_size: 2\n"));
  EXPECT_EQ(even.plan.schedule.kind, "interleaved");
  EXPECT_EQ(even.plan.schedule.virtual_stages, 2);  // 32 / 4 = 8 stages on 4 ranks
  EXPECT_EQ(even.plan.batch.micro_batch_size, 2);
  EXPECT_FALSE(even.plan.parallelism.reshard_after_forward);
  EXPECT_THAT(noted(even), HasSubstr("the pipeline drains after each local batch")) << "64 is four times 8 x 2";
  EXPECT_THAT(refusal("automodel", of("    layers_per_stage: 3\n")), HasSubstr("gives 11 stages"));  // 32 / 3
  const std::string round = "    layers_per_stage: 3\n    round_virtual_stages_to_pp_multiple: ";
  EXPECT_EQ(imported("automodel", of(round + "down\n")).plan.schedule.virtual_stages, 2);  // 8 stages
  const auto up = imported("automodel", of(round + "up\n"));
  EXPECT_EQ(up.plan.schedule.virtual_stages, 3);  // 12 stages: 32 = 8 x 3 + 4 x 2
  EXPECT_THAT(up.toml, HasSubstr("layers_per_stage = [3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2]"));
}

TEST(Automodel, OlderSectionsHaveTheirPlaces) {
  const auto older = imported("automodel",
                              "model:\n  config:\n    pretrained_model_name_or_path: Qwen/Qwen3-30B-A3B\n  backend:\n"
                              "    enable_deepep: true\n" +
                                  batch_of_32 +
                                  "distributed:\n  _target_: nemo_automodel.components.distributed.fsdp2.FSDP2Manager\n"
                                  "  dp_size: none\n  ep_size: 8\nparallelizer:\n  activation_checkpointing: true\n",
                              {"cluster.gpus=16"});
  EXPECT_EQ(older.plan.model.config, "qwen3-30b-a3b");
  EXPECT_EQ(older.plan.parallelism.expert, 8);
  EXPECT_EQ(older.plan.parallelism.zero_stage, 3);
  EXPECT_FALSE(older.plan.parallelism.reshard_after_forward) << "parameters stay, with an expert degree";
  EXPECT_EQ(older.plan.stack.dispatcher, "deepep");
  EXPECT_EQ(older.plan.recompute.policy, "full");
}

TEST(Automodel, AFieldOfTransformersIsOneOfTheModelsFile) {
  const auto described =
      imported("automodel",
               "model:\n  config:\n    _target_: transformers.Qwen3MoeConfig\n    num_hidden_layers: 4\n"
               "    hidden_size: 64\n    tie_word_embeddings: false\n    rope_scaling: null\n" +
                   batch_of_32 + "distributed:\n  dp_size: 16\n");
  EXPECT_EQ(described.config_json,
            "{\n  \"model_type\": \"qwen3_moe\",\n  \"num_hidden_layers\": 4,\n  \"hidden_size\": 64,\n"
            "  \"tie_word_embeddings\": false\n}\n");
  EXPECT_EQ(described.plan.model.config, "plan.json");
}

TEST(Automodel, AdaptersAndPacks) {
  const auto lora = imported("automodel", model_of_llama + batch_of_32 +
                                              "distributed:\n  dp_size: 16\npeft:\n"
                                              "  _target_: nemo_automodel.components._peft.lora.PeftConfig\n  dim: 16\n"
                                              "  target_modules: ['*.q_proj', '*.v_proj']\n"
                                              "packed_sequence:\n  packed_sequence_size: 8192\n");
  EXPECT_EQ(lora.plan.training.method, "lora");
  EXPECT_EQ(lora.plan.training.rank, 16);
  EXPECT_EQ(lora.plan.batch.sequence_length, 8192);
  EXPECT_THAT(lora.toml, HasSubstr("targets = [\"attention\"]"));
}

TEST(Automodel, IsNoRecipeOfNemo) {
  EXPECT_THAT(refusal("nemo", model_of_llama + batch_of_32, {"cluster.gpus=8"}),
              HasSubstr("import automodel reads it"));
}

}  // namespace
}  // namespace plumbline::model::configurations
