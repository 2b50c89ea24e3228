// What config.json files of single types state.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "model/architecture/metrics.h"
#include "model/layers/blocks.h"
#include "model/layers/key_value_cache.h"
#include "tests/support/architectures.h"
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

// Queries of 64 heads of 256 columns by way of 2048, one key and one value; 5 of 61 layers have an MLP.
TEST(ModelTypes, QueriesOfStep3AreOfALatent) {
  const Architecture model = tests::architecture("step-3-321b-a38b");
  constexpr double s = 4096, h = 7168;
  const double attention = h * (2048 + 2 * 256) + 2048 * 64 * 256 + 64 * 256 * h;
  const double flops = 6 * (61 * attention + 5 * 3 * h * 18432 + 56 * (h * 48 + (1 + 3) * 3 * h * 5120) + 128815 * h) +
                       3 * 61 * 2 * (256 + 256) * 64 * s / 2;
  EXPECT_NEAR(model_metrics(model, 4096).flops_per_token_causal, flops, 1e-9 * flops);
  EXPECT_EQ(cache_bytes(model, DataType::bf16, 1, 1), 61 * 2 * 256 * 2);
  const std::string experts = R"(, "moe_num_experts": 16, "moe_top_k": 2, "moe_intermediate_size": 16)";
  const Architecture inside =
      made("step3_vl", R"("text_config": {"model_type": "step3_text", )" + decoder + experts + "}");
  EXPECT_EQ(inside.head_shape(false), (HeadShape{32, 1, 256, 256, 256}));
  EXPECT_EQ(inside.latent.q_lora_rank, 2048);
  EXPECT_EQ(minimal("step3_text", decoder + experts + R"(, "num_attention_groups": 2)").error().key,
            "num_attention_groups");
  // On eight tensor ranks each projects the whole latent, and the queries of its heads.
  LayerContext c{.architecture = model, .tokens = 64, .sequence_length = 64, .tensor = 8};
  const Graph layer = make_block(BlockKind::dense_layer, c);
  EXPECT_EQ(check(layer), "");
  for (const Tensor& tensor : layer.tensors) {
    if (tensor.role != Role::parameter) continue;
    if (tensor.name == "qkv_a") {
      EXPECT_EQ(tensor.elements(), h * (2048 + 2 * 256));
    } else if (tensor.name == "q_b") {
      EXPECT_EQ(tensor.elements(), 2048.0 * 8 * 256);
    }
  }
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

// Parameters by the dimensions of published files, and the size that the model's name states.
TEST(ModelTypes, SmallerTypesHaveTheCountsOfTheirDimensions) {
  struct Counted {
    const char* type;
    const char* keys;
    double parameters;
  };
  for (const auto& [type, keys, parameters] :
       {// 2VH + H + L ((h + 2k)dH + hdH + 3HI + 2H), 8 B
        Counted{"ministral", R"("vocab_size": 131072, "hidden_size": 4096, "intermediate_size": 12288,
                      "num_hidden_layers": 36, "num_attention_heads": 32, "head_dim": 128)",
                8019808256},
        // the same, 32 B
        {"cwm", R"("vocab_size": 128256, "hidden_size": 6144, "intermediate_size": 21504, "num_hidden_layers": 64,
                      "num_attention_heads": 48)",
         32581097472},
        // 2VH + 2H + L (4HH + 4H + 2HI + I + H + 4H), 8 B
        {"jais2", R"("vocab_size": 150272, "hidden_size": 3328, "intermediate_size": 26624, "num_hidden_layers": 32,
                      "num_attention_heads": 26)",
         8090401280},
        // VH + H + L (latent attention of V3 with 16 heads + 3HI + 2H), 1.96 B
        {"youtu", R"("vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 32,
                      "num_attention_heads": 16, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                      "v_head_dim": 128)",
         1961560064},
        // 2VH + H + L ((h + 2k)dH + hdH + 2d + 64 (3HF + H) + 2H), 12 B
        {"mellum", R"("vocab_size": 98304, "hidden_size": 2304, "intermediate_size": 7168, "num_hidden_layers": 28,
                      "num_attention_heads": 32, "num_experts": 64, "num_experts_per_tok": 8,
                      "moe_intermediate_size": 896)",
         12149923072}})
    EXPECT_EQ(model_metrics(made(type, keys), 64).parameters, parameters) << type;
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
  const auto inside = minimal("gemma3n", R"("text_config": {"model_type": "gemma3n_text"})");
  ASSERT_FALSE(inside);
  EXPECT_NE(inside.error().hint.find("altup_num_inputs"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::model
