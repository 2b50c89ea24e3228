// What config.json files of single types state.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "model/architecture/families/families.h"
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
  const std::string windows = R"(, "use_sliding_window": true, "sliding_window": 512)";
  EXPECT_EQ(made("iquestcoder", decoder + windows).window, (SlidingWindow{.tokens = 512}));
  EXPECT_EQ(made("qwen2", decoder + windows).window, (SlidingWindow{.tokens = 512, .first_layer = 28}));
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
         12149923072},
        // 2VH + H + 61 (latent attention of V3 with 64 heads + 2H) + 3HI + 60 (193 experts of 3HF + 192H + H), 519 B
        {"axk1", R"("vocab_size": 163840, "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
                    "num_attention_heads": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                    "v_head_dim": 128, "n_routed_experts": 192, "num_experts_per_tok": 8,
                    "moe_intermediate_size": 2048)",
         518983052288},
        // VH + H + L (latent attention with values of 64 columns + 3HI + 2H), 4 B
        {"minicpm3", R"("vocab_size": 73448, "hidden_size": 2560, "intermediate_size": 6400, "num_hidden_layers": 62,
                        "num_attention_heads": 40, "kv_lora_rank": 256, "qk_nope_head_dim": 64,
                        "qk_rope_head_dim": 32)",
         4073875968},
        // 2VH + L (4HH + 2HI), d32
        {"nanochat", R"("vocab_size": 65536, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 32,
                        "num_attention_heads": 16)",
         1879048192},
        // 2VH + H + L (3hdH + 2kdH + 3HI + 4H), 30 B with what sees
        {"muse_glimmer", R"("text_config": {"model_type": "muse_glimmer_text", "vocab_size": 202048,
                            "hidden_size": 6656, "intermediate_size": 19968, "num_hidden_layers": 52,
                            "num_attention_heads": 32})",
         27854780928},
        // VH + H + L (3HI + 4H) + 25 (2hdH + 2kdH + 2d) + 5 of the same with d = 512
        {"gemma4_unified", R"("text_config": {"model_type": "gemma4_unified_text", "vocab_size": 262144,
                              "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 30,
                              "num_attention_heads": 8})",
         3010758400},
        // 2VH + H + L (2hdH + 2kdH + 2HI + 2H), 2 B with what sees
        {"cosmos3_edge", R"("text_config": {"model_type": "cosmos3_edge_text", "vocab_size": 131072,
                            "hidden_size": 2048, "intermediate_size": 9216, "num_hidden_layers": 28,
                            "num_attention_heads": 16})",
         1946273792},
        // 2VH + H + L (4HH + 2H) + 3HI + 11 (66 experts of 3HF + 64H), 2.9 B
        {"deepseek_ocr2", R"("text_config": {"model_type": "deepseek_ocr2_text", "vocab_size": 129280,
                             "hidden_size": 1280, "intermediate_size": 6848, "num_hidden_layers": 12,
                             "num_attention_heads": 10, "n_routed_experts": 64, "num_experts_per_tok": 6,
                             "moe_intermediate_size": 896, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse",
                             "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse"]})",
         2934734080},
        // VH + H + L (2HH + 2kdH + 3HI + 2H), 3.4 B without what sees
        {"granite4_vision", R"("text_config": {"model_type": "granite4_vision_text", "vocab_size": 100352,
                               "hidden_size": 2560, "intermediate_size": 8192, "num_hidden_layers": 40,
                               "num_attention_heads": 40, "num_key_value_heads": 8, "tie_word_embeddings": true})",
         3402836480},
        // VH + H + L (2hdH + 2kdH + 3HI + 2H + h), 2 B
        {"granite_swa", R"("vocab_size": 100352, "hidden_size": 2560, "intermediate_size": 8192,
                           "num_hidden_layers": 24, "num_attention_heads": 20)",
         2144463840},
        // 2VH + H + L (2hdH + 2kdH + 3HI + 4H)
        {"glm_ocr", R"("text_config": {"model_type": "glm_ocr_text", "vocab_size": 59392, "hidden_size": 1536,
                       "intermediate_size": 4608, "num_hidden_layers": 16, "num_attention_heads": 16,
                       "head_dim": 128})",
         673285632},
        // VH + H + L (2hdH + 2kdH + 3HI + 2H), 0.3 B
        {"paddleocr_vl", R"("vocab_size": 103424, "hidden_size": 1024, "intermediate_size": 3072,
                            "num_hidden_layers": 18, "num_attention_heads": 16)",
         360748032},
        // VH + H + L (4HH + 2d + 3HI + 2H)
        {"hunyuan_vl", R"("vocab_size": 290943, "hidden_size": 4096, "intermediate_size": 11008,
                          "num_hidden_layers": 32, "num_attention_heads": 32)",
         7667982336},
        // 2VH + H + 32 (latent attention of V3 without a latent of queries + 2H) + 3HI + 31 (129 experts of 3HF + 128H)
        {"sarvam_mla", R"("vocab_size": 262144, "hidden_size": 4096, "intermediate_size": 16384,
                          "num_hidden_layers": 32, "num_attention_heads": 64, "kv_lora_rank": 512,
                          "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "num_experts": 128,
                          "num_experts_per_tok": 8, "moe_intermediate_size": 2048)",
         106031763456},
        // 2VH + H + L (2hdH + 2kdH + 2d + 2H) + 3HI + 18 (129 experts of 3HF + 128H), 30 B
        {"sarvam_moe", R"("vocab_size": 262144, "hidden_size": 4096, "intermediate_size": 8192,
                          "num_hidden_layers": 19, "num_attention_heads": 16, "num_experts": 128,
                          "num_experts_per_tok": 6, "moe_intermediate_size": 1024)",
         32272193024},
        // 2VH + H + L (2hdH + 2kdH + 3HI + 2H), 40 B and 36 B
        {"iquestcoder", R"("vocab_size": 76800, "hidden_size": 5120, "intermediate_size": 27648,
                           "num_hidden_layers": 80, "num_attention_heads": 40)",
         39794283520},
        {"telechat3", R"("vocab_size": 131072, "hidden_size": 6144, "intermediate_size": 24576,
                         "num_hidden_layers": 64, "num_attention_heads": 48, "num_key_value_heads": 8)",
         36239579136}})
    EXPECT_EQ(model_metrics(made(type, keys), 64).parameters, parameters) << type;
}

// Command A+: one norm of 64 in each layer, 4 heads of 128 with 2 keys, an MLP of 256 in the first layer, 8 experts and
// a shared one of 128 in the others, of which each fourth has no window.
TEST(ModelTypes, CommandAPlusHasExpertsInParallelWithAttention) {
  const std::string keys = R"("num_hidden_layers": 6, "hidden_size": 64, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 128, "num_experts": 8, "num_experts_per_tok": 2,
      "num_shared_experts": 1, "first_k_dense_replace": 1, "prefix_dense_intermediate_size": 256)";
  const Architecture model = made("cohere2_moe", keys);
  EXPECT_EQ(model.norm, NormKind::layer);
  EXPECT_TRUE(model.shared_norm && model.experts.normalize_weights && model.window.rotary_only);
  EXPECT_EQ(model.layer(0), (LayerKind{Mixer::attention, FeedForward::dense}));
  for (const std::int64_t windowed : {1, 2, 3, 5})
    EXPECT_EQ(model.layer(windowed), (LayerKind{Mixer::windowed_attention, FeedForward::experts})) << windowed;
  EXPECT_EQ(model.layer(4), (LayerKind{Mixer::attention, FeedForward::experts}));
  const double attention = 2 * 64 * 4 * 128 + 2 * 64 * 2 * 128;
  EXPECT_EQ(model_metrics(model, 64).parameters,
            100 * 64 + 64 + 6 * (attention + 64) + 3 * 64 * 256 + 5 * ((8 + 1) * 3 * 64 * 128 + 8 * 64));
  const Architecture other = made("cohere2_moe", keys + R"(, "rms_norm_eps": 1e-6, "expert_selection_fn": "sigmoid",
                                                           "norm_topk_prob": false)");
  EXPECT_EQ(other.norm, NormKind::root_mean_square);
  EXPECT_EQ(other.norm_epsilon, 1e-6);
  EXPECT_EQ(other.experts.score, ScoreFunction::sigmoid);
  EXPECT_FALSE(other.experts.normalize_weights);
  EXPECT_EQ(minimal("cohere2_moe", keys + R"(, "prefix_dense_sliding_window_pattern": 4)").error().key,
            "prefix_dense_sliding_window_pattern");
  // The router reads the norm's result in 16 bits where GEMMs have FP8 whose scales are known.
  LayerContext c{.architecture = model, .tokens = 64, .sequence_length = 64};
  c.gemm = Precision::fp8_tensor;
  c.delayed_scaling = true;
  const Graph layer = make_block(BlockKind::moe_layer, c);
  EXPECT_EQ(check(layer), "");
  const auto norm = std::ranges::find(layer.tensors, "attention_norm_out", &Tensor::name);
  ASSERT_NE(norm, layer.tensors.end());
  EXPECT_EQ(norm->type, DataType::bf16);
}

// Full attention in the first of four layers, or in the fourth counted from the last.
TEST(ModelTypes, LayersWithoutAWindowNeedNotBeTheNth) {
  const Architecture swash = made("granite_swa", decoder + R"(, "num_key_value_heads": 4)");
  const Architecture experts = made("granitemoe_swa", decoder + R"(, "num_local_experts": 8)");
  for (const Architecture& model : {swash, experts}) {
    EXPECT_EQ(model.window.tokens, 128);
    EXPECT_EQ(model.layer(0).mixer, Mixer::attention);
    EXPECT_EQ(model.layer(3).mixer, Mixer::windowed_attention);
    EXPECT_EQ(model.omitted.parameters, 4 * 32);
  }
  EXPECT_TRUE(swash.tied_embedding && !experts.tied_embedding && experts.is_moe_layer(0));
  const Architecture muse = made("muse_glimmer", R"("num_hidden_layers": 5, "hidden_size": 64,
                                 "num_attention_heads": 32, "intermediate_size": 128)");
  EXPECT_EQ(muse.layer(0).mixer, Mixer::attention);
  EXPECT_EQ(muse.layer(1).mixer, Mixer::windowed_attention);
  EXPECT_EQ(muse.layer(4).mixer, Mixer::attention);
  EXPECT_TRUE(muse.output_gate && muse.post_norms && muse.query_key_norm && muse.window.rotary_only);
  EXPECT_FALSE(muse.query_key_gains);
  const Architecture named = made("muse_glimmer", decoder + R"(, "layer_types": ["full_attention",
                                  "sliding_attention", "sliding_attention", "sliding_attention"])");
  EXPECT_EQ(named.layer(0).mixer, Mixer::attention);
  EXPECT_EQ(named.layer(3).mixer, Mixer::windowed_attention);
}

// Gemma 4 12B has no embedding of each layer and no shared keys, unless the file states them.
TEST(ModelTypes, UnifiedGemma4IsReadAsGemma4) {
  const std::string keys = R"("num_hidden_layers": 6, "hidden_size": 64, "num_attention_heads": 4,
      "intermediate_size": 128, "attention_k_eq_v": true, "num_global_key_value_heads": 1)";
  const Architecture model = made("gemma4_unified_text", keys);
  EXPECT_EQ(model.window.tokens, 1024);
  EXPECT_TRUE(model.values.are_keys && model.post_norms && model.tied_embedding);
  EXPECT_EQ(model.head_shape(true), (HeadShape{4, 4, 256, 256, 256}));
  EXPECT_EQ(model.head_shape(false), (HeadShape{4, 1, 512, 512, 128}));
  EXPECT_EQ(model.layer_inputs.columns, 0);
  EXPECT_EQ(made("gemma4_unified_text", keys + R"(, "hidden_size_per_layer_input": 8)").layer_inputs.columns, 8);
  EXPECT_EQ(made("gemma4_text", keys).layer_inputs, (LayerInputs{256, 262144}));
}

// The sixth of seven layers attends to all tokens, so that the last one can borrow keys and values but not the last
// two.
TEST(ModelTypes, LayersOfGemma4BorrowFromOnesThatAttendAlike) {
  const std::string keys = R"("num_hidden_layers": 7, "hidden_size": 64, "num_attention_heads": 4,
      "intermediate_size": 128, "num_kv_shared_layers": )";
  const Architecture model = made("gemma4_text", keys + "1");
  EXPECT_EQ(model.layer(6), (LayerKind{Mixer::windowed_attention, FeedForward::dense, true}));
  EXPECT_EQ(model.layer(5), (LayerKind{Mixer::attention, FeedForward::dense}));
  EXPECT_EQ(model.mlp_columns(model.layer(6)), 128);
  EXPECT_EQ(made("gemma4_text", keys + R"(1, "use_double_wide_mlp": true)").mlp_columns(model.layer(6)), 256);
  EXPECT_EQ(minimal("gemma4_text", keys + "2").error().key, "num_kv_shared_layers");
}

// Norms of nanochat have no gains: a layer has no parameters but its matrices', also where several ranks divide it.
TEST(ModelTypes, NormsOfNanochatHaveNoGains) {
  const Architecture model = made("nanochat", decoder);
  LayerContext c{.architecture = model, .tokens = 64, .sequence_length = 64, .tensor = 2, .sequence = true};
  const Graph layer = make_block(BlockKind::dense_layer, c);
  EXPECT_EQ(check(layer), "");
  double parameters = 0;
  for (const Tensor& tensor : layer.tensors)
    if (tensor.role == Role::parameter) parameters += tensor.elements();
  EXPECT_EQ(parameters, (4 * 64 * 64 + 2 * 64 * 128) / 2);
}

// What files may state that published ones do not: layers of Mellum 2 with an MLP, biases of Solar Open, which its
// output does not have.
TEST(ModelTypes, LessCommonKeysAreRead) {
  const std::string experts = R"(, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16)";
  const Architecture mellum =
      made("mellum", decoder + experts + R"(, "mlp_layer_types": ["dense", "sparse", "sparse", "dense"])");
  EXPECT_FALSE(mellum.is_moe_layer(0) || mellum.is_moe_layer(3));
  EXPECT_TRUE(mellum.is_moe_layer(1) && mellum.is_moe_layer(2));
  EXPECT_TRUE(made("mellum", decoder + experts).is_moe_layer(0));
  const Architecture solar = made("solar_open", decoder + R"(, "n_routed_experts": 16, "num_experts_per_tok": 2,
                                  "moe_intermediate_size": 16, "attention_bias": true)");
  EXPECT_TRUE(solar.biases.query_key_value && !solar.biases.attention_output);
  EXPECT_EQ(made("jais2", decoder).rope_theta, 500000);
}

// The text model of a type that sees is inside one of four objects, whatever the type.
TEST(ModelTypes, TextModelsAreReadInsideOfAnyType) {
  for (const char* object : {"thinker_config", "text_config", "language_config", "llm_config"}) {
    const Architecture model =
        made("olmo2", R"("hidden_size": 8, ")" + std::string(object) + R"(": {)" + decoder + "}");
    EXPECT_EQ(model.hidden_size, made("olmo2", decoder).hidden_size) << object;
  }
}

// One norm in each layer; without names no layer has a window, and none rotates unless its positions are stated.
TEST(ModelTypes, LayersOfCohereCompassHaveTheWindowsThatAreNamed) {
  const Architecture all = made("cohere_compass_text", decoder);
  EXPECT_TRUE(all.parallel_residual && all.shared_norm && all.window.rotary_only);
  EXPECT_EQ(all.layer(0).mixer, Mixer::attention);
  const Architecture named = made("cohere_compass_text", decoder + R"(, "layer_types": ["sliding_attention",
      "full_attention", "sliding_attention", "full_attention"], "sliding_window": 512,
      "rope_parameters": {"full_attention": {"rope_theta": 10000.0}})");
  EXPECT_EQ(named.window, (SlidingWindow{.tokens = 512, .full_every = 1}));
  EXPECT_EQ(named.layer(0).mixer, Mixer::windowed_attention);
  EXPECT_EQ(named.layer(1).mixer, Mixer::attention);
}

TEST(ModelTypes, GlmOcrHasAModuleOfPrediction) {
  const Architecture model =
      made("glm_ocr", R"("text_config": {)" + decoder + R"(, "num_nextn_predict_layers": 1, "head_dim": 32})");
  EXPECT_EQ(model.multi_token_prediction_layers, 1);
  EXPECT_EQ(made("glm_ocr", decoder).multi_token_prediction_layers, 0);
}

TEST(ModelTypes, ModelsThatNoOperatorComputesAreRefusedByWhatTheyHave) {
  for (const auto& [type, part] : {std::pair{"zamba", "n_mamba_heads"},
                                   {"phi4flash", "attend to the keys and values of another"},
                                   {"glm5_next", "index_kpool"},
                                   {"axk2", "gated_norm_rank"},
                                   {"inkling_mm_model", "d_rel"},
                                   {"zaya", "cca_time0"},
                                   {"hrm_text", "H_cycles"},
                                   {"iquestloopcoder", "loop_num"},
                                   {"ouro", "total_ut_steps"},
                                   {"diffusion_gemma", "tokens that see later ones"},
                                   {"ernie4_5_vl_moe", "experts of images"},
                                   {"gemma4_assistant", "a draft that attends"},
                                   {"muse_glimmer_assistant", "target_layer_ids"},
                                   {"glm_image", "vision_vocab_size"},
                                   {"rwkv7", "a removal of each column"},
                                   {"nemotron-nas", "block_configs"}}) {
    const auto refused = minimal(type, decoder);
    ASSERT_FALSE(refused) << type;
    EXPECT_EQ(refused.error().key, "model_type");
    EXPECT_NE(refused.error().hint.find(part), std::string::npos) << refused.error().hint;
  }
  const auto inside = minimal("gemma3n", R"("text_config": {"model_type": "gemma3n_text"})");
  ASSERT_FALSE(inside);
  EXPECT_NE(inside.error().hint.find("altup_num_inputs"), std::string::npos);
  // What a draft has inside could be read, but is no model by itself.
  EXPECT_EQ(minimal("gemma4_assistant", R"("text_config": {"model_type": "gemma4_text"})").error().key, "model_type");
}

TEST(ModelTypes, RefusalsNameTheNearestTypeThatIsRead) {
  for (const auto& [type, nearest] : {std::pair{"jetmoe", "granitemoe"},
                                      {"recurrent_gemma", "gemma2"},
                                      {"rwkv", "mamba2"},
                                      {"rwkv6", "mamba2"},
                                      {"xlstm", "mamba2"},
                                      {"arctic", "mixtral"},
                                      {"diffllama", "llama"},
                                      {"doge", "llama"},
                                      {"mllama", "llama"},
                                      {"hymba", "falcon_h1"},
                                      {"plamo2", "bamba"},
                                      {"gemma3n", "gemma4"},
                                      {"zamba", "zamba2"},
                                      {"phi4flash", "jamba"}}) {
    const auto refused = minimal(type, decoder);
    ASSERT_FALSE(refused) << type;
    EXPECT_TRUE(refused.error().hint.ends_with(std::string("; the nearest type that is read is ") + nearest)) << type;
    EXPECT_NE(find_model_type(nearest), nullptr) << nearest;
  }
}

}  // namespace
}  // namespace plumbline::model
