// Step programs small enough to be executed.
#pragma once

#include <gtest/gtest.h>

#include "model/architecture/load_architecture.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {

// Latent attention, 8 experts of which a rank holds 4, and one dense layer; each rank holds both of the two stages.
inline model::StepProgram tiny_program() {
  const TemporaryDirectory folder;
  const auto config = folder.write("tiny.json", R"({"model_type": "deepseek_v3", "vocab_size": 64, "hidden_size": 32,
    "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": 16, "kv_lora_rank": 8,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "intermediate_size": 64,
    "moe_intermediate_size": 16, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1,
    "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2, "norm_topk_prob": true, "scoring_func": "sigmoid",
    "num_nextn_predict_layers": 0})");
  const auto plan = model::read_plan(R"(
    model.config = "tiny.json"
    [cluster]
    topology = "host"
    gpus = 4
    [parallelism]
    pipeline = 2
    expert = 2
    [batch]
    sequence_length = 16
    micro_batch_size = 1
    global_batch_size = 8
    [schedule]
    kind = "dualpipe"
    [precision]
    gemm = "fp32"
    dispatch = "fp32"
    combine = "fp32"
    optimizer_moments = "fp32")",
                                     "tiny.toml", {});
  EXPECT_TRUE(plan) << to_string(plan.error());
  const auto architecture = model::load_architecture(config.string());
  EXPECT_TRUE(architecture) << to_string(architecture.error());
  const auto layout = model::make_layout(*plan, *architecture);
  EXPECT_TRUE(layout) << to_string(layout.error());
  return model::compile(*plan, *architecture, *layout).value();
}

}  // namespace plumbline::tests
