// What config.json files of single types state.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "model/architecture/metrics.h"
#include "model/layers/blocks.h"
#include "model/layers/key_value_cache.h"
#include "tests/support/config_files.h"

namespace plumbline::model {
namespace {

using tests::decoder;
using tests::made;
using tests::minimal;

// Without low ranks, gates of Kimi Delta Attention are projected whole; attention's are as wide as heads, or as values.
TEST(ModelTypes, Ling3HasKimiDeltaAttention) {
  const std::string keys = decoder + R"(, "num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
      "head_dim": 4, "layer_group_size": 2, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2,
      "v_head_dim": 4, "short_conv_kernel_size": 3, "use_qk_norm": true)";
  const Architecture low = made("bailing_hybrid", keys);
  EXPECT_EQ(low.recurrence.kind, RecurrenceKind::channel_delta);
  EXPECT_EQ(low.recurrence.gate_rank, 4);
  EXPECT_EQ(low.recurrence.convolution, 3);
  EXPECT_EQ(low.layer(0).mixer, Mixer::recurrence);
  EXPECT_EQ(low.layer(1).mixer, Mixer::attention);
  EXPECT_FALSE(low.head_gate || low.output_gate);
  EXPECT_EQ(low.omitted.parameters, 0);
  const Architecture whole =
      made("bailing_hybrid", keys + R"(, "no_kda_lora": true, "gated_attention_proj_granularity_type": "head_wise")");
  EXPECT_EQ(whole.recurrence.gate_rank, 0);
  EXPECT_TRUE(whole.head_gate);
  EXPECT_TRUE(
      made("bailing_hybrid", keys + R"(, "gated_attention_proj_granularity_type": "element_wise")").output_gate);
}

// DeepSeekMoE has V3's keys without latent attention; dots.llm1 names its scores by the method of choice.
TEST(ModelTypes, DeepSeekMoeHasPlainAttentionAndDotsAScoreOfItsOwn) {
  const std::string experts = R"(, "n_routed_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                                 "n_shared_experts": 2, "first_k_dense_replace": 1)";
  const Architecture model = made("deepseek", decoder + experts);
  EXPECT_EQ(model.attention, AttentionKind::grouped_query);
  EXPECT_EQ(model.experts.score, ScoreFunction::softmax);
  EXPECT_FALSE(model.experts.normalize_weights || model.is_moe_layer(0));
  EXPECT_TRUE(model.is_moe_layer(1));
  EXPECT_EQ(model.experts.shared_width(), 32);
  const Architecture dots = made("dots1", decoder + experts + R"(, "scoring_func": "noaux_tc")");
  EXPECT_EQ(dots.experts.score, ScoreFunction::sigmoid);
}

// GLM-5.2: an indexer in the first layers and in every fourth one from then on; its layer of prediction has one.
TEST(ModelTypes, LayersOfGlm52ShareWhatAnIndexerChose) {
  const std::string keys = decoder + R"(, "n_routed_experts": 16, "num_experts_per_tok": 2, "q_lora_rank": 8,
      "moe_intermediate_size": 16, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4,
      "first_k_dense_replace": 1, "num_nextn_predict_layers": 1, "index_head_dim": 128, "index_n_heads": 2)";
  const Architecture model =
      made("glm_moe_dsa", keys + R"(, "index_topk_freq": 4, "indexer_types": ["full", "shared", "shared", "full"])");
  EXPECT_EQ(model.layer(0), (LayerKind{Mixer::attention, FeedForward::dense}));
  EXPECT_EQ(model.layer(1), (LayerKind{Mixer::sparse_attention, FeedForward::experts}));
  EXPECT_EQ(model.layer(3), (LayerKind{Mixer::attention, FeedForward::experts}));
  EXPECT_EQ(layer_of(BlockKind::multi_token_prediction, model).mixer, Mixer::attention);
  const Architecture each = made("glm_moe_dsa", keys + R"(, "indexer_types": ["full", "full", "full", "full"])");
  EXPECT_TRUE(each.pattern.empty());
  // An indexer: queries of the latent, a key and weights of the stream, gain and shift of the key's norm.
  const double indexer = 8 * 2 * 128 + 64 * (128 + 2) + 2 * 128;
  EXPECT_EQ(model_metrics(each, 64).parameters - model_metrics(model, 64).parameters, 2 * indexer);
  // Its keys have 8 bits and a scale of 4 bytes.
  EXPECT_EQ(cache_bytes(each, DataType::bf16, 1, 1) - cache_bytes(model, DataType::bf16, 1, 1), 2 * (128 + 4));
  EXPECT_EQ(minimal("glm_moe_dsa", keys + R"(, "index_topk_freq": 4)").error().key, "index_topk_freq");
  EXPECT_EQ(minimal("glm_moe_dsa", keys + R"(, "indexer_types": ["full", "shared"])").error().key, "indexer_types");
}

TEST(ModelTypes, OptHasRelusAndTwoMorePositions) {
  const std::string keys = R"("num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 9,
                              "ffn_dim": 128)";
  const Architecture model = made("opt", keys);
  EXPECT_EQ(model.mlp, MlpKind::gelu);
  EXPECT_EQ(model.position_table, 2050);
  EXPECT_TRUE(model.tied_embedding && model.norm_bias && model.biases.mlp);
  EXPECT_EQ(model.dropout.embedding, 0);
  EXPECT_EQ(model.dropout.residual, 0.1);
  EXPECT_EQ(minimal("opt", keys + R"(, "word_embed_proj_dim": 32)").error().key, "word_embed_proj_dim");
  EXPECT_EQ(minimal("opt", keys + R"(, "do_layer_norm_before": false)").error().key, "do_layer_norm_before");
  EXPECT_EQ(minimal("opt", keys + R"(, "activation_function": "gelu")").error().key, "activation_function");
}

TEST(ModelTypes, StarCoder2HasGroupedQueriesAndLayerNorm) {
  const Architecture model = made("starcoder2", decoder + R"(, "sliding_window": 8, "use_bias": false)");
  EXPECT_EQ(model.norm, NormKind::layer);
  EXPECT_EQ(model.mlp, MlpKind::gelu);
  EXPECT_TRUE(model.layer(0).mixer == Mixer::windowed_attention && model.tied_embedding && model.norm_bias);
  EXPECT_FALSE(model.biases.mlp || model.biases.query_key_value);
  EXPECT_TRUE(made("starcoder2", decoder).biases.attention_output);
  EXPECT_FALSE(made("starcoder2", decoder).layer(0).mixer == Mixer::windowed_attention);
}

// Four heads of keys with three quarters of the stream's columns, values twice as wide.
TEST(ModelTypes, OlmoHybridHasGatedDeltaNetInThreeOfFourLayers) {
  const Architecture model = made("olmo_hybrid", R"("num_hidden_layers": 8, "hidden_size": 64, "num_attention_heads": 4,
                             "intermediate_size": 128, "vocab_size": 9)");
  EXPECT_EQ(model.layer(2).mixer, Mixer::recurrence);
  EXPECT_EQ(model.layer(3).mixer, Mixer::attention);
  EXPECT_EQ(model.recurrence.key_dim, 12);
  EXPECT_EQ(model.recurrence.value_dim, 24);
  EXPECT_EQ(model.omitted.parameters, 2 * (4 + 4 - 2) * 16);  // of two layers' norms
}

// Rows of the table of decoders: what one states, a file without the key has.
TEST(ModelTypes, DecodersHaveTheDefaultsOfTheirRow) {
  const Architecture seed = made("seed_oss", decoder);
  EXPECT_TRUE(seed.biases.query_key_value && !seed.biases.attention_output && !seed.biases.mlp);
  EXPECT_EQ(seed.head_dim, 128);
  EXPECT_EQ(seed.dropout, (Dropout{.attention = 0.1, .residual = 0.1}));
  EXPECT_TRUE(made("seed_oss", decoder + R"(, "attention_out_bias": true)").biases.attention_output);
  const Architecture internlm = made("internlm3", decoder + R"(, "num_key_value_heads": 1, "bias": true)");
  EXPECT_TRUE(!internlm.biases.query_key_value && internlm.biases.attention_output && internlm.biases.mlp);
  const Architecture glm = made("glm4", decoder);
  EXPECT_TRUE(glm.post_norms && glm.biases.query_key_value && !glm.biases.attention_output);
  EXPECT_EQ(glm.rotary_dim, 64);  // half of 128
  EXPECT_EQ(made("arcee", decoder).mlp, MlpKind::gelu);
  EXPECT_EQ(minimal("arcee", decoder + R"(, "hidden_act": "silu")").error().key, "hidden_act");
  EXPECT_EQ(made("exaone4", decoder).window, (SlidingWindow{.tokens = 4096, .full_every = 4, .rotary_only = true}));
  EXPECT_EQ(made("exaone4", decoder + R"(, "sliding_window": null)").window, (SlidingWindow{.full_every = 4}));
}

// The text model of a type that sees is inside one of four objects, whatever the type.
TEST(ModelTypes, TextModelsAreReadInsideOfAnyType) {
  for (const char* object : {"thinker_config", "text_config", "language_config", "llm_config"}) {
    const Architecture model =
        made("olmo2", R"("hidden_size": 8, ")" + std::string(object) + R"(": {)" + decoder + "}");
    EXPECT_EQ(model.hidden_size, made("olmo2", decoder).hidden_size) << object;
  }
}

TEST(ModelTypes, ModelsThatNoOperatorComputesAreRefusedByWhatTheyHave) {
  for (const auto& [type, part] : {std::pair{"zamba2", "blocks of attention and an MLP that several layers share"},
                                   {"phi4flash", "attend to the keys and values of another"},
                                   {"glm5_next", "index_kpool"},
                                   {"nemotron-nas", "block_configs"}}) {
    const auto refused = minimal(type, decoder);
    ASSERT_FALSE(refused) << type;
    EXPECT_EQ(refused.error().key, "model_type");
    EXPECT_NE(refused.error().hint.find(part), std::string::npos) << refused.error().hint;
  }
  const auto inside = minimal("step3_vl", R"("text_config": {"model_type": "step3_text"})");
  ASSERT_FALSE(inside);
  EXPECT_NE(inside.error().hint.find("share_q_dim"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::model
