#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "model/architecture/config_reader.h"
#include "model/architecture/families/families.h"
#include "model/architecture/load_architecture.h"
#include "model/layers/blocks.h"
#include "model/plan/plan.h"
#include "tests/support/config_files.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

using tests::decoder;
using tests::expect_error;
using tests::made;
using tests::minimal;
using tests::shipped;
using tests::TemporaryDirectory;
using tests::valid;

Architecture load_shipped(const std::string& name) {
  return valid(load_architecture(shipped("examples/models/" + name + ".json")));
}

bool has_window(const Architecture& model, std::int64_t layer) {
  return model.layer(layer).mixer == Mixer::windowed_attention;
}

// Returns a small llama file with one key per line; `replaced` replaces the line with its key.
std::string llama(const std::string& key = "", const std::string& replaced = "") {
  std::string text = "{\n\"model_type\": \"llama\"";
  for (const char* line : {"\"hidden_size\": 64", "\"intermediate_size\": 128", "\"num_attention_heads\": 4",
                           "\"num_hidden_layers\": 2", "\"vocab_size\": 1000"}) {
    const bool is_key = !key.empty() && std::string(line).starts_with("\"" + key + "\"");
    if (is_key && replaced.empty()) continue;
    text += std::string(",\n") + (is_key ? replaced : line);
  }
  return text + "\n}\n";
}

// Dimensions decide numbers of parameters, which validation/parameter_counts_test compares; the rest is here.
TEST(Architecture, ReadsDeepSeekV3) {
  const Architecture model = load_shipped("deepseek-v3");
  EXPECT_EQ(model.name, "deepseek-v3");
  EXPECT_EQ(model.model_type, "deepseek_v3");
  EXPECT_EQ(model.multi_token_prediction_layers, 1);
  EXPECT_EQ(model.attention, AttentionKind::multi_head_latent);
  EXPECT_EQ(model.experts.experts_per_token, 8);
  EXPECT_EQ(model.experts.groups, 8);
  EXPECT_EQ(model.experts.groups_per_token, 4);
  EXPECT_EQ(model.experts.score, ScoreFunction::sigmoid);
  EXPECT_EQ(model.experts.group_score_experts, 2);
  EXPECT_TRUE(model.experts.normalize_weights);
  EXPECT_DOUBLE_EQ(model.experts.scaling_factor, 2.5);
  // The first three layers are dense.
  EXPECT_FALSE(model.is_moe_layer(2));
  EXPECT_TRUE(model.is_moe_layer(3));
}

TEST(Architecture, ReadsDeepSeekV2) {
  const Architecture model = load_shipped("deepseek-v2");
  EXPECT_EQ(model.experts.experts_per_token, 6);
  EXPECT_EQ(model.experts.groups_per_token, 3);
  EXPECT_EQ(model.experts.dense_layers_first, 1);
  EXPECT_EQ(model.experts.score, ScoreFunction::softmax);
  EXPECT_EQ(model.experts.group_score_experts, 1);
  EXPECT_FALSE(model.experts.normalize_weights);
  EXPECT_DOUBLE_EQ(model.experts.scaling_factor, 16.0);
  EXPECT_EQ(model.multi_token_prediction_layers, 0);
}

TEST(Architecture, ReadsTheBaseOfRotations) { EXPECT_DOUBLE_EQ(load_shipped("llama-3-405b").rope_theta, 500000.0); }

TEST(Architecture, MissingAndNullKeysTakeHuggingFaceDefaultsAndUnknownOnesAreIgnored) {
  const TemporaryDirectory folder;
  const auto path = folder.write("tiny.json", llama("vocab_size",
                                                    "\"vocab_size\": 1000, \"num_key_value_heads\": null,"
                                                    " \"something_new\": {\"a\": [1]}"));
  const auto model = load_architecture(path.string());
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->key_value_heads, 4);  // as many as heads
  EXPECT_EQ(model->head_dim, 16);        // 64 / 4
  EXPECT_DOUBLE_EQ(model->norm_epsilon, 1e-6);
  EXPECT_FALSE(model->tied_embedding);
}

TEST(Architecture, NullQueryRankMeansNoCompression) {
  const TemporaryDirectory folder;
  const std::string text = R"({"model_type": "deepseek_v2", "hidden_size": 64, "intermediate_size": 128,
    "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100, "kv_lora_rank": 8, "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "q_lora_rank": null, "topk_method": "greedy", "n_group": 4, "topk_group": 1})";
  const auto model = load_architecture(folder.write("lite.json", text).string());
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->latent.q_lora_rank, 0);
  EXPECT_EQ(model->experts.groups, 1);  // greedy routing has no groups
  EXPECT_EQ(model->multi_token_prediction_layers, 0);
}

const std::string gpt = R"("n_layer": 4, "n_embd": 64, "n_head": 4)";

TEST(Architecture, MistralHasAWindowUnlessTheFileHasNull) {
  const Architecture first = made("mistral", decoder);
  EXPECT_EQ(first.window.tokens, 4096);
  EXPECT_EQ(first.key_value_heads, 8);
  EXPECT_TRUE(has_window(first, 0));
  const auto later = minimal("mistral", decoder + R"(, "sliding_window": null, "head_dim": 128)");
  EXPECT_FALSE(has_window(*later, 0));
  EXPECT_EQ(later->head_dim, 128);
}

TEST(Architecture, MixtralRoutesEveryLayer) {
  const Architecture model = made("mixtral", decoder);
  EXPECT_EQ(model.experts.routed_experts, 8);
  EXPECT_EQ(model.experts.experts_per_token, 2);
  EXPECT_EQ(model.experts.intermediate_size, 128);
  EXPECT_TRUE(model.experts.normalize_weights);
  EXPECT_TRUE(model.is_moe_layer(0));
  EXPECT_EQ(model.window.tokens, 0);
}

TEST(Architecture, QwenUsesItsWindowInTheUpperLayersIfAtAll) {
  const Architecture without = made("qwen2", decoder + R"(, "sliding_window": 16, "max_window_layers": 2)");
  EXPECT_FALSE(has_window(without, 3));
  EXPECT_TRUE(without.biases.query_key_value);
  EXPECT_FALSE(without.biases.attention_output);
  const auto with =
      minimal("qwen2", decoder + R"(, "use_sliding_window": true, "sliding_window": 16, "max_window_layers": 2)");
  EXPECT_FALSE(has_window(*with, 1));
  EXPECT_TRUE(has_window(*with, 2));
  const Architecture named = made("qwen2", decoder + R"(, "use_sliding_window": true, "sliding_window": 16,
      "layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"])");
  EXPECT_TRUE(has_window(named, 1));
  EXPECT_FALSE(has_window(named, 3));
}

TEST(Architecture, TextModelsInsideOthersAreRead) {
  const std::string experts = R"(, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16)";
  const auto same = [](const std::string& outer, const std::string& inner, const std::string& keys) {
    auto nested = minimal(outer, "\"text_config\": {" + keys + "}");
    const auto flat = minimal(inner, keys);
    ASSERT_TRUE(nested && flat) << outer;
    nested->model_type = inner;
    EXPECT_EQ(*nested, *flat) << outer;
  };
  same("qwen3_vl", "qwen3", decoder);
  same("qwen3_vl_moe", "qwen3_moe", decoder + experts);
  same("mistral3", "mistral", decoder + R"(, "sliding_window": null)");
  same("qwen2_5_vl", "qwen2", decoder);
  same("kimi_k25", "kimi_k2",
       decoder + R"(, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4,
                    "n_routed_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 16)");
}

// Of a mistral3 the type inside decides what the layers are.
TEST(Architecture, MistralSmall4IsInsideAMistral3) {
  const std::string latent = R"(, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4,
                               "n_routed_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 16)";
  auto nested = minimal("mistral3", R"("text_config": {"model_type": "mistral4", )" + decoder + latent + "}");
  const auto flat = minimal("mistral4", decoder + latent);
  ASSERT_TRUE(nested && flat);
  EXPECT_EQ(nested->attention, AttentionKind::multi_head_latent);
  EXPECT_EQ(nested->experts.score, ScoreFunction::softmax);
  EXPECT_TRUE(nested->is_moe_layer(0));
  nested->model_type = "mistral4";
  EXPECT_EQ(*nested, *flat);
  const Architecture omni = made("qwen3_omni_moe", R"("thinker_config": {"text_config": {)" + decoder +
                                                       R"(, "num_experts": 8, "num_experts_per_tok": 2,
                                                     "moe_intermediate_size": 16}})");
  EXPECT_EQ(omni.experts.routed_experts, 8);
}

// Keys of the same router have other names, and layers their own norms and windows.
TEST(Architecture, ModelsWithDeepSeeksRouterDifferInNames) {
  const std::string experts = R"(, "num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 16)";
  const Architecture hy = made("hy_v3", decoder + experts + R"(, "rope_parameters": {"rope_theta": 7.0})");
  EXPECT_EQ(hy.rope_theta, 7);
  EXPECT_EQ(hy.experts.scaling_factor, 2.826);
  EXPECT_EQ(hy.experts.shared_experts, 1);
  EXPECT_FALSE(hy.is_moe_layer(0));
  const Architecture listed =
      made("hy_v3", decoder + experts + R"(, "mlp_layer_types": ["dense", "dense", "sparse", "dense"])");
  EXPECT_FALSE(listed.is_moe_layer(1) || listed.is_moe_layer(3));
  EXPECT_TRUE(listed.is_moe_layer(2));
  const Architecture exaone = made("exaone_moe", decoder + experts);
  EXPECT_TRUE(has_window(exaone, 2) && exaone.window.rotary_only);
  EXPECT_FALSE(has_window(exaone, 3));
  const Architecture afmoe = made("afmoe", decoder + experts + R"(, "num_dense_layers": 2, "layer_types": [
      "full_attention", "sliding_attention", "sliding_attention", "full_attention"])");
  EXPECT_TRUE(afmoe.post_norms && afmoe.output_gate);
  EXPECT_EQ(afmoe.layer(1), (LayerKind{Mixer::windowed_attention, FeedForward::dense}));
  EXPECT_EQ(afmoe.layer(3), (LayerKind{Mixer::attention, FeedForward::experts}));
  const Architecture ling =
      made("bailing_moe", decoder + experts + R"(, "n_group": 4, "topk_group": 2, "use_qk_norm": true,
                                                                  "num_shared_experts": 2, "score_function": "sigmoid",
                                                                  "moe_shared_expert_intermediate_size": 8)");
  EXPECT_EQ(ling.experts.score, ScoreFunction::sigmoid);
  EXPECT_EQ(ling.experts.shared_width(), 16);
  const Architecture ernie =
      made("ernie4_5_moe", decoder + R"(, "moe_num_experts": 16, "moe_k": 2, "moe_layer_end_index": 2,
                                                          "moe_intermediate_size": 16, "moe_layer_interval": 2)");
  EXPECT_TRUE(ernie.is_moe_layer(1));
  EXPECT_FALSE(ernie.is_moe_layer(0) || ernie.is_moe_layer(2) || ernie.is_moe_layer(3));
  EXPECT_TRUE(minimal("solar_open", decoder + R"(, "n_routed_experts": 16, "num_experts_per_tok": 2,
                                                 "moe_intermediate_size": 16)")
                  ->is_moe_layer(0));
  EXPECT_TRUE(minimal("dots1", decoder + R"(, "n_routed_experts": 16, "num_experts_per_tok": 2,
                                            "moe_intermediate_size": 16)")
                  ->query_key_norm);
}

TEST(Architecture, HunyuanListsNumbersByLayer) {
  const Architecture model = made("hunyuan_v1_moe", decoder + R"(, "num_experts": 8, "moe_topk": [2, 2, 2, 2])");
  EXPECT_EQ(model.experts.experts_per_token, 2);
  EXPECT_TRUE(model.query_key_norm);
  EXPECT_EQ(minimal("hunyuan_v1_moe", decoder + R"(, "num_experts": 8, "moe_topk": [2, 4, 2, 2])").error().key,
            "moe_topk");
  EXPECT_EQ(minimal("hunyuan_v1_dense", decoder)->experts.routed_experts, 0);
}

TEST(Architecture, SeedOssDropsWhereItsConfigSaysNothing) {
  const auto model = minimal("seed_oss", decoder),
             stated = minimal("seed_oss", decoder + R"(, "attention_dropout": 0)");
  ASSERT_TRUE(model && stated);
  EXPECT_EQ(model->dropout.attention, 0.1);
  EXPECT_EQ(model->dropout.residual, 0.1);
  EXPECT_EQ(stated->dropout.attention, 0);
}

TEST(Architecture, Olmo3HasAWindowInThreeOfFourLayers) {
  const Architecture model = made("olmo3", decoder);
  EXPECT_TRUE(has_window(model, 2));
  EXPECT_FALSE(has_window(model, 3));
}

TEST(Architecture, NamesOfLayersDecideWhichHaveTheWindow) {
  const std::string names = R"(, "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention",
      "sliding_attention", "full_attention"])";
  for (const char* type : {"olmo3", "gemma2", "gemma3", "gpt_oss"}) {
    const Architecture model = made(type, decoder + names);
    EXPECT_FALSE(has_window(model, 0) || has_window(model, 3)) << type;
    EXPECT_TRUE(has_window(model, 1) && has_window(model, 2)) << type;
  }
}

TEST(Architecture, LayersWithAWindowHaveTheirOwnHeads) {
  const std::string experts = R"(, "n_routed_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 16)";
  const std::string own = R"(, "head_dim": 8, "v_head_dim": 4, "partial_rotary_factor": 0.5, "num_key_value_heads": 2,
                             "swa_num_attention_heads": 24, "swa_num_key_value_heads": 4, "swa_head_dim": 16)";
  const Architecture mimo = made("mimo_v2_flash", decoder + experts + own + R"(, "hybrid_layer_pattern": [0, 1, 1, 0],
                                                                            "moe_layer_freq": [0, 1, 0, 1])");
  EXPECT_EQ(mimo.head_shape(false), (HeadShape{32, 2, 8, 4, 4}));
  EXPECT_EQ(mimo.head_shape(true), (HeadShape{24, 4, 16, 4, 4}));
  EXPECT_EQ(mimo.layer(1), (LayerKind{Mixer::windowed_attention, FeedForward::experts}));
  EXPECT_EQ(mimo.layer(2), (LayerKind{Mixer::windowed_attention, FeedForward::dense}));
  EXPECT_EQ(mimo.layer(3), (LayerKind{Mixer::attention, FeedForward::experts}));
  EXPECT_EQ(mimo.omitted.parameters, 2 * 24);  // sinks
  const Architecture later = made("mimo_v2", decoder + experts + own + R"(, "num_nextn_predict_layers": 3)");
  EXPECT_EQ(later.head_shape(true), mimo.head_shape(true));
  EXPECT_THAT(later.omitted.what, testing::Contains(testing::HasSubstr("modules of prediction")));
  const Architecture plain = made("mimo_v2_flash", decoder + experts);
  EXPECT_EQ(plain.head_shape(true).key_value_heads, 2 * plain.key_value_heads);
  const auto uneven = minimal("mimo_v2_flash", decoder + experts + R"(, "swa_num_key_value_heads": 5)");
  EXPECT_EQ(uneven.error().key, "swa_num_key_value_heads");
  const std::string listed = R"(, "num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
      "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
      "num_attention_heads_per_layer": )";
  const Architecture laguna = made("laguna", decoder + listed + "[32, 48, 48, 32]");
  EXPECT_EQ(laguna.head_shape(false), (HeadShape{32, 8, 128, 128, 64}));
  EXPECT_EQ(laguna.head_shape(true), (HeadShape{48, 8, 128, 128, 128}));
  EXPECT_TRUE(laguna.head_gate && !laguna.output_gate);
  EXPECT_EQ(minimal("laguna", decoder + listed + "[32, 48, 40, 32]").error().key, "num_attention_heads_per_layer");
}

// Layers are named, or listed by the tokens of their compressed entries: in the hub's files an indexer chooses among
// those of 4.
TEST(Architecture, LayersOfDeepSeekV4HaveCompressedEntries) {
  const std::string experts = R"(, "n_routed_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 16)";
  const std::string shape = decoder + experts + R"(, "num_key_value_heads": 1)";
  const Architecture listed = made("deepseek_v4", shape + R"(, "compress_ratios": [0, 64, 4, 64, 0])");
  EXPECT_EQ(listed.shared.compression, 64);
  EXPECT_EQ(listed.layer(0), (LayerKind{Mixer::windowed_attention, FeedForward::experts}));
  EXPECT_EQ(listed.layer(1), (LayerKind{Mixer::compressed_attention, FeedForward::experts}));
  EXPECT_EQ(listed.layer(2), (LayerKind{Mixer::sparse_compressed_attention, FeedForward::experts}));
  EXPECT_EQ(listed.residual_streams, 4);
  const Architecture named = made("deepseek_v4", shape + R"(, "compress_rates": {"compressed_sparse_attention": 8},
      "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention",
                      "sliding_attention"])");
  EXPECT_EQ(named.shared.compression_of(named.layer(1).mixer), 8);
  EXPECT_EQ(named.shared.compression_of(named.layer(2).mixer), 128);
  EXPECT_EQ(named.shared.compression_of(named.layer(3).mixer), 0);
  EXPECT_EQ(minimal("deepseek_v4", shape + R"(, "compress_ratios": [128, 64, 4, 4])").error().key, "compress_ratios");
  EXPECT_EQ(minimal("deepseek_v4", shape + R"(, "compress_ratios": [128, 4])").error().key, "compress_ratios");
  EXPECT_EQ(minimal("deepseek_v4", shape + R"(, "o_groups": 5)").error().key, "o_groups");
}

TEST(Architecture, LayersOfGemma4HaveKeysAsValuesAndExpertsNextToTheMlp) {
  const std::string own = R"(, "num_key_value_heads": 8, "head_dim": 4, "global_head_dim": 8, "attention_k_eq_v": true,
                             "num_global_key_value_heads": 2)";
  const std::string none = R"(, "hidden_size_per_layer_input": 0)";
  const std::string experts = R"(, "enable_moe_block": true, "num_experts": 4, "top_k_experts": 2,
                                 "moe_intermediate_size": 16)";
  const Architecture model = made("gemma4_text", decoder + own + none + experts);
  EXPECT_EQ(model.head_shape(true), (HeadShape{32, 8, 4, 4, 4}));
  EXPECT_EQ(model.head_shape(false), (HeadShape{32, 2, 8, 8, 2}));
  EXPECT_TRUE(model.values.are_keys && model.values.normalized && model.experts.with_dense);
  EXPECT_EQ(model.layer(0), (LayerKind{Mixer::windowed_attention, FeedForward::experts}));
  EXPECT_TRUE(model.has_dense_mlp());
  EXPECT_EQ(minimal("gemma4_text", decoder + own + experts).error().key, "enable_moe_block") << "an input of a layer";
  EXPECT_EQ(minimal("gemma4_text", decoder + none + R"(, "num_kv_shared_layers": 40)").error().key,
            "num_kv_shared_layers");
}

TEST(Architecture, Step3p5ListsLayersWithExpertsAndPositionsOfEachLayer) {
  const std::string keys = R"(, "num_attention_groups": 8, "moe_num_experts": 16, "moe_top_k": 2,
      "moe_intermediate_size": 16, "rope_theta": [5000000.0, 10000.0, 10000.0, 5000000.0],
      "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
      "attention_other_setting": {"num_attention_heads": 48}, "moe_layers_enum": )";
  const Architecture model = made("step3p5", decoder + keys + R"("1, 3")");
  EXPECT_EQ(model.head_shape(false), (HeadShape{32, 8, 128, 128, 64}));
  EXPECT_EQ(model.head_shape(true), (HeadShape{48, 8, 128, 128, 128}));
  EXPECT_EQ(model.layer(0), (LayerKind{Mixer::attention, FeedForward::dense}));
  EXPECT_EQ(model.layer(1), (LayerKind{Mixer::windowed_attention, FeedForward::experts}));
  EXPECT_EQ(model.layer(2), (LayerKind{Mixer::windowed_attention, FeedForward::dense}));
  EXPECT_EQ(model.layer(3), (LayerKind{Mixer::attention, FeedForward::experts}));
  EXPECT_EQ(layer_of(BlockKind::multi_token_prediction, model),
            (LayerKind{Mixer::windowed_attention, FeedForward::dense}));
  const Architecture listed = made("step3p5", decoder + keys + "[1, 3]");
  EXPECT_EQ(listed.experts, model.experts);
  const Architecture predicting = made("step3p5", decoder + keys + "[1, 3, 4]");
  EXPECT_EQ(layer_of(BlockKind::multi_token_prediction, predicting).feed_forward, FeedForward::experts);
  EXPECT_EQ(minimal("step3p5", decoder + keys + R"("1, x")").error().key, "moe_layers_enum");
}

TEST(Architecture, DecodersWithLayerNorm) {
  const Architecture cohere = made("cohere", decoder + R"(, "use_qk_norm": true, "num_key_value_heads": 2)");
  EXPECT_EQ(cohere.norm, NormKind::layer);
  EXPECT_TRUE(cohere.shared_norm && cohere.tied_embedding && cohere.query_key_norm && !cohere.norm_bias);
  EXPECT_EQ(cohere.omitted.parameters, 4 * (32 + 2 - 2) * 2);
  const Architecture cohere2 = made("cohere2", decoder);
  EXPECT_TRUE(has_window(cohere2, 2) && cohere2.window.rotary_only);
  EXPECT_FALSE(minimal("cohere2", decoder + R"(, "use_qk_norm": true)")->query_key_norm);
  EXPECT_FALSE(has_window(cohere2, 3));
  const Architecture nemotron = made("nemotron", decoder + R"(, "hidden_act": "relu2", "head_dim": 8)");
  EXPECT_EQ(nemotron.mlp, MlpKind::gelu);
  EXPECT_EQ(nemotron.rotary_dim, 4);
  EXPECT_FALSE(minimal("nemotron", decoder + R"(, "hidden_act": "silu")"));
  const Architecture phi = made("phimoe", decoder + R"(, "attention_bias": true, "lm_head_bias": true)");
  EXPECT_EQ(phi.experts.routed_experts, 16);
  EXPECT_EQ(phi.omitted.parameters, 100);
  const Architecture stable = made("stablelm", decoder + R"(, "use_parallel_residual": true, "num_key_value_heads": 2,
                                                       "partial_rotary_factor": 0.5, "head_dim": 8)");
  EXPECT_TRUE(stable.shared_norm && stable.norm_bias);
  EXPECT_EQ(minimal("stablelm", decoder + R"(, "head_dim": 8, "hidden_dropout": 0.1)").error().key, "hidden_dropout");
}

TEST(Architecture, ActivationsOfAnMlpWithoutGateAreTheTypes) {
  const auto arcee = minimal("arcee", decoder + R"(, "mlp_bias": true)"), apertus = minimal("apertus", decoder);
  ASSERT_TRUE(arcee && apertus);
  EXPECT_EQ(arcee->mlp, MlpKind::gelu);
  EXPECT_TRUE(arcee->biases.mlp);
  EXPECT_EQ(apertus->omitted.parameters, 2 * 4);
  EXPECT_EQ(minimal("arcee", decoder + R"(, "hidden_act": "silu")").error().key, "hidden_act");
}

TEST(Architecture, SmolLm3DoesNotRotateInTheLayersThatItNames) {
  const Architecture model = made("smollm3", decoder + R"(, "max_position_embeddings": 128)");
  EXPECT_EQ(model.window.tokens, 128);
  EXPECT_TRUE(has_window(model, 2) && model.window.rotary_only);
  EXPECT_FALSE(has_window(model, 3));
  const Architecture named = made("smollm3", decoder + R"(, "no_rope_layers": [0, 1, 1, 1])");
  EXPECT_TRUE(!has_window(named, 0) && has_window(named, 3));
  EXPECT_EQ(minimal("smollm3", decoder + R"(, "no_rope_layers": [0, 1])").error().key, "no_rope_layers");
  EXPECT_EQ(minimal("smollm3", decoder + R"(, "use_sliding_window": true)").error().key, "use_sliding_window");
}

TEST(Architecture, ExpertsInPlaceOfTheMlp) {
  const auto olmo = minimal("olmoe", decoder), flex = minimal("flex_olmo", decoder + R"(, "num_experts": 8)");
  ASSERT_TRUE(olmo && flex);
  EXPECT_EQ(olmo->experts.routed_experts, 64);
  EXPECT_FALSE(olmo->experts.normalize_weights);
  EXPECT_EQ(flex->experts.routed_experts, 8);
  EXPECT_TRUE(flex->query_key_norm);
  const Architecture granite = made("granitemoeshared", decoder + R"(, "shared_intermediate_size": 8)");
  EXPECT_EQ(granite.experts.shared_width(), 8);
  EXPECT_EQ(minimal("granitemoe", decoder)->experts.shared_width(), 0);
  EXPECT_EQ(minimal("minicpm", decoder + R"(, "num_experts": 8)").error().key, "num_experts");
}

TEST(Architecture, BambaAttendsInTheLayersThatItNames) {
  const Architecture model =
      made("bamba", decoder + R"(, "attn_layer_indices": [1], "mamba_n_heads": 4, "head_dim": 8)");
  EXPECT_EQ(model.layer(0), (LayerKind{Mixer::recurrence, FeedForward::dense}));
  EXPECT_EQ(model.layer(1), (LayerKind{Mixer::attention, FeedForward::dense}));
}

// The type inside decides what the layers are.
TEST(Architecture, TextModelsInsideModelsThatSee) {
  for (const auto& [outer, object] : {std::pair{"internvl_chat", "llm_config"}, std::pair{"llava", "text_config"}}) {
    auto model = minimal(outer, fmt::format(R"("{}": {{"model_type": "qwen2", {}}})", object, decoder));
    ASSERT_TRUE(model) << to_string(model.error());
    model->model_type = "qwen2";
    EXPECT_EQ(*model, *minimal("qwen2", decoder)) << outer;
  }
  const Architecture plain = made("deepseek_vl_v2", R"("language_config": {"use_mla": false,
      "n_routed_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 16, )" +
                                                        decoder + "}");
  EXPECT_EQ(plain.attention, AttentionKind::grouped_query);
  const auto tied = minimal("llava_onevision", R"("tie_word_embeddings": false,
      "text_config": {"model_type": "qwen2", "tie_word_embeddings": true, )" +
                                                   decoder + "}");
  EXPECT_TRUE(tied && tied->tied_embedding);
  const Error unknown = minimal("llava", R"("text_config": {"model_type": "lama"})").error();
  EXPECT_EQ(unknown.key, "text_config.model_type");
  EXPECT_THAT(unknown.hint, "did you mean 'llama'?");
  EXPECT_EQ(minimal("internvl", decoder).error().key, "model_type");
}

// Objects inside a file leave out what their class has anyway, as LLaVA 1.5's do.
TEST(Architecture, TextModelsInsideOthersHaveTheSizesOfTheirClass) {
  const Architecture llava = made("llava", R"("text_config": {"model_type": "llama"})");
  EXPECT_EQ(llava.layers, 32);
  EXPECT_EQ(llava.hidden_size, 4096);
  EXPECT_EQ(llava.intermediate_size, 11008);
  EXPECT_EQ(llava.heads, 32);
  const Architecture gemma = made("gemma3", R"("text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
      "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024})");
  EXPECT_EQ(gemma.heads, 8);
  EXPECT_EQ(gemma.layers, 34);
  EXPECT_EQ(minimal("gemma3", R"("hidden_size": 2560)").error().key, "num_hidden_layers");
}

// The class of the text model is made of its object alone, in which a null is none.
TEST(Architecture, KeysOfATextModelComeBeforeThoseAroundIt) {
  const Architecture model = made("qwen3_vl", R"("hidden_size": 4096, "num_hidden_layers": 99, "head_dim": 64,
      "tie_word_embeddings": true, "text_config": {"head_dim": null, "tie_word_embeddings": false, )" +
                                                  decoder + "}");
  EXPECT_EQ(model.hidden_size, 64);
  EXPECT_EQ(model.layers, 4);
  EXPECT_EQ(model.head_dim, 128);  // the default
  EXPECT_FALSE(model.tied_embedding);
  EXPECT_EQ(model.vocabulary, 100);  // around it alone
}

TEST(Architecture, ATextModelIsNamedAfterTheModelThatSees) {
  for (const auto& [name, type] : {std::pair{"qwen3_vl_text", "qwen3_vl"}, std::pair{"glm4v_text", "glm4"}}) {
    Architecture model = made(name, decoder);
    model.model_type = type;
    EXPECT_EQ(model, made(type, decoder)) << name;
  }
  EXPECT_EQ(minimal("clip_text", decoder).error().key, "model_type");
}

TEST(Architecture, MiMoIsQwen2WithModulesOfPrediction) {
  const Architecture mimo = made("mimo", decoder + R"(, "num_nextn_predict_layers": 1)");
  EXPECT_TRUE(mimo.biases.query_key_value);
  EXPECT_EQ(mimo.multi_token_prediction_layers, 1);
  EXPECT_EQ(made("mimo", decoder).multi_token_prediction_layers, 0);
}

TEST(Architecture, HybridsHaveAttentionInEachFourthLayer) {
  const Architecture model = made("qwen3_5", "\"text_config\": {" + decoder + "}");
  EXPECT_EQ(model.layer(2), (LayerKind{Mixer::recurrence, FeedForward::dense}));
  EXPECT_EQ(model.layer(3), (LayerKind{Mixer::attention, FeedForward::dense}));
  const Architecture named = made("qwen3_5", decoder + R"(, "layer_types": ["full_attention", "linear_attention",
                                                      "linear_attention", "full_attention", "full_attention"])");
  EXPECT_EQ(named.pattern.size(), 4u);  // the first ones
  EXPECT_EQ(named.layer(0).mixer, Mixer::attention);
  EXPECT_EQ(named.layer(1).mixer, Mixer::recurrence);
}

TEST(Architecture, LingHasLightningAttentionInAllButTheLastLayerOfAGroup) {
  const std::string keys = decoder + R"(, "num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
      "head_dim": 4, "first_k_dense_replace": 1, "layer_group_size": 2)";
  const Architecture ring = made("bailing_moe_linear", keys);
  EXPECT_EQ(ring.layer(0), (LayerKind{Mixer::recurrence, FeedForward::dense}));
  EXPECT_EQ(ring.layer(1), (LayerKind{Mixer::attention, FeedForward::experts}));
  EXPECT_EQ(ring.recurrence.key_dim, 4);
  EXPECT_EQ(ring.attention, AttentionKind::grouped_query);
  const Architecture ling = made("bailing_hybrid", keys + R"(, "kv_lora_rank": 8, "qk_nope_head_dim": 4,
      "qk_rope_head_dim": 2, "v_head_dim": 4)");
  EXPECT_EQ(ling.attention, AttentionKind::multi_head_latent);
  EXPECT_EQ(ling.recurrence, ring.recurrence);
}

TEST(Architecture, Lfm2HasConvolutionsWhereItsConfigHasNoAttention) {
  const std::string layers = decoder + R"(, "block_ff_dim": 1000, "full_attn_idxs": [1])";
  const Architecture dense = made("lfm2", layers);
  EXPECT_EQ(dense.layer(0), (LayerKind{Mixer::recurrence, FeedForward::dense}));
  EXPECT_EQ(dense.layer(1), (LayerKind{Mixer::attention, FeedForward::dense}));
  EXPECT_EQ(dense.intermediate_size, 768);  // 666 rounded up to a multiple of 256
  EXPECT_TRUE(dense.tied_embedding);
  EXPECT_EQ(made("lfm2", layers + R"(, "block_auto_adjust_ff_dim": false)").intermediate_size, 1000);
  EXPECT_EQ(minimal("lfm2", layers + R"(, "conv_bias": true)").error().key, "conv_bias");
  const Architecture sparse = load_shipped("lfm2-8b-a1b");
  EXPECT_EQ(sparse.layer(1), (LayerKind{Mixer::recurrence, FeedForward::dense}));
  EXPECT_EQ(sparse.layer(2), (LayerKind{Mixer::attention, FeedForward::experts}));
  EXPECT_EQ(sparse.recurrence.convolution, 3);
}

TEST(Architecture, KimiLinearListsItsLayersFromOne) {
  const std::string rest = R"(, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4,
                              "num_experts": 8, "num_experts_per_token": 2, "moe_intermediate_size": 16,
                              "first_k_dense_replace": 1, "mla_use_nope": true, "linear_attn_config": {"num_heads": 2,
                              "head_dim": 4, "full_attn_layers": [4], "kda_layers": )";
  const Architecture model = made("kimi_linear", decoder + rest + "[1, 2, 3]}");
  EXPECT_EQ(model.layer(0), (LayerKind{Mixer::recurrence, FeedForward::dense}));
  EXPECT_EQ(model.layer(2), (LayerKind{Mixer::recurrence, FeedForward::experts}));
  EXPECT_EQ(model.layer(3), (LayerKind{Mixer::attention, FeedForward::experts}));
  EXPECT_EQ(model.positions, PositionKind::none);
  EXPECT_EQ(model.recurrence.gate_rank, 4);
  const auto missing = minimal("kimi_linear", decoder + rest + "[1, 2]}");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().key, "linear_attn_config.kda_layers");
  EXPECT_NE(missing.error().message.find("layer 3 is in neither"), std::string::npos);
  EXPECT_FALSE(minimal("kimi_linear", decoder + rest + "[1, 2, 3, 4]}"));
}

TEST(Architecture, KimiK3HasWholeGatesAndExpertsOfALatent) {
  const Architecture model = load_shipped("kimi-k3");
  EXPECT_TRUE(model.output_gate && model.recurrence.full_gate && model.experts.latent_norm);
  EXPECT_EQ(model.expert_hidden(), 3584);
  EXPECT_EQ(model.layer(92), (LayerKind{Mixer::attention, FeedForward::experts}));
  EXPECT_EQ(model.omitted.what.size(), 2U);
  const Architecture linear = load_shipped("kimi-linear-48b-a3b");
  EXPECT_FALSE(linear.output_gate || linear.recurrence.full_gate || linear.experts.latent_norm);
}

TEST(Architecture, NemotronCountsTheLayersThatItNames) {
  const Architecture model = made("nemotron_h", R"("hidden_size": 16, "num_attention_heads": 8, "vocab_size": 9,
                                              "num_hidden_layers": null, "moe_latent_size": 4,
                                              "num_nextn_predict_layers": 1,
                                              "layers_block_type": ["mamba", "moe", "attention"])");
  EXPECT_EQ(model.layers, 3);
  EXPECT_EQ(model.layer(1), (LayerKind{Mixer::none, FeedForward::experts}));
  EXPECT_EQ(model.expert_hidden(), 4);
  EXPECT_EQ(model.multi_token_prediction_layers, 1);
  EXPECT_EQ(load_shipped("nemotron-3-nano-30b-a3b").expert_hidden(), 2688);
}

TEST(Architecture, FalconH1HasBothMixersInEachLayer) {
  const std::string mamba = R"(, "mamba_n_heads": 4, "mamba_d_state": 8, "mamba_rms_norm": true, "mamba_d_ssm": )";
  const Architecture model = made("falcon_h1", decoder + mamba + "32");
  EXPECT_EQ(model.layer(3), (LayerKind{Mixer::attention_and_recurrence, FeedForward::dense}));
  EXPECT_EQ(model.recurrence.value_dim, 8);
  EXPECT_TRUE(model.recurrence.normalized);
  EXPECT_EQ(minimal("falcon_h1", decoder + mamba + "null")->recurrence.value_dim, 32);  // twice the hidden size
  EXPECT_EQ(minimal("falcon_h1", decoder + mamba + R"(32, "mamba_d_head": "auto")")->recurrence.value_dim, 8);
  EXPECT_EQ(minimal("falcon_h1", decoder + mamba + R"(32, "mamba_d_head": "many")").error().key, "mamba_d_head");
  EXPECT_EQ(minimal("falcon_h1", decoder + mamba + R"(32, "mamba_d_head": 4)").error().key, "mamba_d_ssm");
}

// Of 12 experts of a token 8 have work where 512 of 768 have.
TEST(Architecture, LongCatFlashHasTwoLayersForOneAndExpertsWithoutWork) {
  const Architecture model = load_shipped("longcat-flash-560b-a27b");
  EXPECT_EQ(model.layers, 56);
  EXPECT_EQ(model.layer(0), (LayerKind{Mixer::attention, FeedForward::experts}));
  EXPECT_EQ(model.layer(1), (LayerKind{Mixer::attention, FeedForward::dense}));
  EXPECT_EQ(model.experts.experts_per_token, 8);
  EXPECT_EQ(model.experts.idle_experts, 256);
  EXPECT_EQ(model.experts.shared_width(), model.intermediate_size);
  EXPECT_EQ(model.latent.q_lora_rank, 1536);
  EXPECT_EQ(minimal("longcat_flash", decoder).error().key, "num_layers");
}

TEST(Architecture, JambaHasAttentionAndExpertsByPeriods) {
  const std::string mamba = R"(, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 3,
                                 "expert_layer_offset": 0, "num_experts": )";
  const Architecture model = made("jamba", decoder + mamba + "4");
  EXPECT_EQ(model.layer(0), (LayerKind{Mixer::recurrence, FeedForward::experts}));
  EXPECT_EQ(model.layer(1), (LayerKind{Mixer::attention, FeedForward::dense}));
  EXPECT_EQ(model.layer(3), (LayerKind{Mixer::attention, FeedForward::experts}));
  EXPECT_EQ(model.recurrence.value_heads, 128);  // twice the hidden size
  EXPECT_EQ(model.recurrence.gate_rank, 4);      // a sixteenth
  EXPECT_EQ(model.positions, PositionKind::none);
  EXPECT_FALSE(model.experts.normalize_weights);
  EXPECT_EQ(minimal("jamba", decoder + R"(, "mamba_dt_rank": "auto")")->recurrence.gate_rank, 4);
  EXPECT_EQ(minimal("jamba", decoder + R"(, "mamba_dt_rank": 8)")->recurrence.gate_rank, 8);
  const Architecture dense = made("jamba", decoder + mamba + R"(1, "num_experts_per_tok": 1)");
  EXPECT_EQ(dense.layer(0), (LayerKind{Mixer::recurrence, FeedForward::dense}));
  EXPECT_EQ(minimal("jamba", decoder + mamba + R"(4, "mamba_proj_bias": true)").error().key, "mamba_proj_bias");
  EXPECT_EQ(minimal("jamba", decoder + R"(, "attn_layer_offset": 8)").error().key, "attn_layer_offset")
      << "of a period of 8 layers";
}

TEST(Architecture, Gemma3nIsRefusedByWhatItHas) {
  for (const char* keys : {R"("text_config": {"model_type": "gemma3n_text"})", R"("altup_num_inputs": 4)"}) {
    const auto refused = minimal("gemma3n", keys);
    ASSERT_FALSE(refused);
    EXPECT_NE(to_string(refused.error()).find("laurel_rank"), std::string::npos);
  }
}

TEST(Architecture, MambaHasRecurrencesAlone) {
  const std::string sizes = R"("num_hidden_layers": 4, "hidden_size": 64)";
  const Architecture first = made("mamba", sizes);
  EXPECT_EQ(first.layer(3), (LayerKind{Mixer::recurrence, FeedForward::none}));
  EXPECT_EQ(first.heads, 0);
  EXPECT_TRUE(first.tied_embedding);
  EXPECT_EQ(first.recurrence.value_heads, 128);  // channels
  EXPECT_EQ(first.recurrence.gate_rank, 4);
  EXPECT_FALSE(first.recurrence.normalized);
  // Whatever `expand` is, and by norms without gains.
  const Architecture falcon = made("falcon_mamba", sizes + R"(, "expand": 16, "intermediate_size": 96)");
  EXPECT_EQ(falcon.recurrence.value_heads, 96);
  EXPECT_TRUE(falcon.recurrence.normalized && !falcon.recurrence.norm_gains);
  const Architecture second = made("mamba2", sizes + R"(, "num_heads": 4, "n_groups": 2)");
  EXPECT_EQ(second.recurrence.kind, RecurrenceKind::state_space);
  EXPECT_EQ(second.recurrence.value_dim, 64);
  EXPECT_FALSE(second.tied_embedding);
  EXPECT_EQ(minimal("mamba2", sizes + R"(, "num_heads": 4, "n_groups": 3)").error().key, "n_groups");
  EXPECT_EQ(minimal("mamba", sizes + R"(, "use_bias": true)").error().key, "use_bias");
}

TEST(Architecture, BaichuanRotatesAtSevenBillionAlone) {
  EXPECT_EQ(load_shipped("baichuan-2-7b").positions, PositionKind::rotary);
  const Architecture larger = load_shipped("baichuan-2-13b");
  EXPECT_EQ(larger.positions, PositionKind::alibi);
  EXPECT_EQ(larger.key_value_heads, 40);
  EXPECT_EQ(larger.omitted.what.size(), 1U);
  EXPECT_TRUE(made("baichuan", decoder).omitted.what.empty());  // the first, whose vocabulary is another
}

TEST(Architecture, MiniMaxListsTypesOrNamesOfItsLayers) {
  const std::string experts = R"(, "num_local_experts": 4, "rotary_dim": 2)";
  const Architecture typed = made("minimax_m1", decoder + experts + R"(, "attn_type_list": [0, 0, 0, 1, 0])");
  EXPECT_EQ(typed.layer(2), (LayerKind{Mixer::recurrence, FeedForward::experts}));
  EXPECT_EQ(typed.layer(3), (LayerKind{Mixer::attention, FeedForward::experts}));
  EXPECT_EQ(typed.recurrence.value_heads, 32);
  const Architecture named =
      made("minimax", decoder + experts + R"(, "layer_types": ["full_attention", "linear_attention",
                                                                "linear_attention", "linear_attention"])");
  EXPECT_EQ(named.layer(0).mixer, Mixer::attention);
  for (const char* wrong : {"[0, 0, 1]", "[0, 0, 2, 1]"}) {
    const auto refused = minimal("minimax_text_01", decoder + experts + R"(, "attn_type_list": )" + wrong);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().key, "attn_type_list");
  }
}

// The hub calls the text model minimax_m2, whose layers are others.
TEST(Architecture, MiniMaxM3ChoosesBlocksInListedLayers) {
  const auto read = [](const std::string& blocks, const std::string& more = "") {
    return minimal("minimax_m3_vl", R"("text_config": {"model_type": "minimax_m2", "moe_layer_freq": [0, 1, 1, 1],
        "num_local_experts": 8, "dense_intermediate_size": 256, "shared_intermediate_size": 96, "rotary_dim": 2,
        "num_mtp_modules": 7, "num_nextn_predict_layers": 1, "hidden_act": "swigluoai", "sparse_attention_config": {"sparse_num_index_heads": 4,
        "sparse_attention_freq": [0, 0, 1, 1], "sparse_index_dim": 16, "sparse_block_size": 64,
        "sparse_topk_blocks": )" + blocks +
                                        more + "}, " + decoder + "}");
  };
  const Architecture model = valid(read("8"));
  EXPECT_EQ(model.layer(0), (LayerKind{Mixer::attention, FeedForward::dense}));
  EXPECT_EQ(model.layer(1), (LayerKind{Mixer::attention, FeedForward::experts}));
  EXPECT_EQ(model.layer(3), (LayerKind{Mixer::sparse_attention, FeedForward::experts}));
  EXPECT_EQ(model.layer(4), model.layer(3));  // of the prediction
  EXPECT_EQ(model.sparse, (SparseAttention{.tokens = 512, .heads = 4, .head_dim = 16, .block = 64}));
  EXPECT_EQ(model.sparse.seen(), 481);  // 7 blocks, and half of the query's own
  EXPECT_EQ(model.multi_token_prediction_layers, 1);
  EXPECT_EQ(model.intermediate_size, 256);
  EXPECT_EQ(model.experts.intermediate_size, 128);
  EXPECT_EQ(model.experts.shared_width(), 96);
  EXPECT_EQ(model.experts.experts_per_token, 4);
  EXPECT_EQ(model.key_value_heads, 4);
  for (const Architecture& whole : {valid(read("0")), valid(read("8", R"(, "use_sparse_attention": false)"))}) {
    EXPECT_EQ(whole.layer(3), (LayerKind{Mixer::attention, FeedForward::experts}));
    EXPECT_EQ(whole.sparse.tokens, 0);
  }
  EXPECT_EQ(read("8", R"(, "sparse_disable_index_value": [0, 0, 1, 0])").error().key,
            "sparse_attention_config.sparse_disable_index_value");
  const auto heads = read("8", R"(}, "num_key_value_heads": 8, "unread": {"none": 0)");
  EXPECT_EQ(heads.error().key, "sparse_attention_config.sparse_num_index_heads");
}

// transformers' own files have the keys of blocks among the others, and names of layers.
TEST(Architecture, MiniMaxM3NamesLayersThatChooseBlocks) {
  const Architecture model = made("minimax_m3_vl_text", decoder + R"(, "num_local_experts": 8, "rotary_dim": 2,
      "layer_types": ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse", "full_attention"],
      "index_topk_blocks": 2, "index_block_size": 32)");
  EXPECT_EQ(model.layer(0).mixer, Mixer::attention);
  EXPECT_EQ(model.layer(2), (LayerKind{Mixer::sparse_attention, FeedForward::experts}));
  EXPECT_EQ(model.sparse, (SparseAttention{.tokens = 64, .heads = 4, .head_dim = 128, .block = 32}));
}

TEST(Architecture, QwenChoosesItsMoeLayers) {
  const std::string experts = R"(, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                                 "decoder_sparse_step": 2, "mlp_only_layers": [3])";
  const Architecture model = made("qwen2_moe", decoder + experts + R"(, "shared_expert_intermediate_size": 48)");
  // Every second layer counted from one, but not the last.
  for (const auto& [layer, moe] : {std::pair{0, false}, {1, true}, {2, false}, {3, false}})
    EXPECT_EQ(model.is_moe_layer(layer), moe) << layer;
  EXPECT_EQ(model.experts.shared_width(), 48);
  EXPECT_TRUE(model.experts.shared_gate);
  EXPECT_FALSE(minimal("qwen3_moe", decoder + experts)->experts.shared_gate);
}

TEST(Architecture, Qwen3NormalisesQueriesAndKeys) {
  const Architecture model = made("qwen3", decoder);
  EXPECT_TRUE(model.query_key_norm);
  EXPECT_EQ(model.head_dim, 128);  // not 64 / 32
  EXPECT_FALSE(model.biases.query_key_value);
}

TEST(Architecture, GptDefaults) {
  const Architecture model = made("gpt2", gpt);
  EXPECT_EQ(model.norm, NormKind::layer);
  EXPECT_EQ(model.mlp, MlpKind::gelu);
  EXPECT_EQ(model.positions, PositionKind::learned);
  EXPECT_EQ(model.position_table, 1024);
  EXPECT_EQ(model.intermediate_size, 256);  // 4 * 64
  EXPECT_TRUE(model.tied_embedding && model.norm_bias && model.biases.mlp && model.biases.query_key_value);
  EXPECT_DOUBLE_EQ(model.dropout.residual, 0.1);
  EXPECT_DOUBLE_EQ(minimal("gpt2", gpt + R"(, "resid_pdrop": 0.0)")->dropout.residual, 0);
}

TEST(Architecture, NeoXDefaults) {
  const Architecture model = made("gpt_neox", R"("num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
                                            "intermediate_size": 256)");
  EXPECT_TRUE(model.parallel_residual);
  EXPECT_FALSE(model.tied_embedding);
  EXPECT_EQ(model.rotary_dim, 4);  // a quarter of 16
  EXPECT_EQ(model.positions, PositionKind::rotary);
  EXPECT_DOUBLE_EQ(model.dropout.residual, 0);
}

TEST(Architecture, MptReadsItsAttentionFromTheObjectInTheFile) {
  const std::string keys = R"("n_layers": 4, "d_model": 64, "n_heads": 4)";
  const Architecture model = made("mpt", keys);
  EXPECT_EQ(model.positions, PositionKind::alibi);
  EXPECT_FALSE(model.norm_bias || model.biases.mlp);
  EXPECT_TRUE(model.tied_embedding);
  const auto learned =
      minimal("mpt", keys + R"(, "attn_config": {"alibi": false, "attn_pdrop": 0.1}, "no_bias": false)");
  EXPECT_EQ(learned->positions, PositionKind::learned);
  EXPECT_DOUBLE_EQ(learned->dropout.attention, 0.1);
  EXPECT_TRUE(learned->norm_bias);
}

struct BadModel {
  const char* what;
  std::string text;
  int line;
  const char* key;
  const char* says;
};

class BadArchitecture : public testing::TestWithParam<BadModel> {};

TEST_P(BadArchitecture, IsAnInputErrorAtItsPlace) {
  const TemporaryDirectory folder;
  const std::string path = folder.write("config.json", GetParam().text).string();
  expect_error(load_architecture(path), ErrorKind::input, path, GetParam().line, GetParam().key, GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadArchitecture,
    testing::Values(
        BadModel{"unknown_type", "{\n\"model_type\": \"depseek_v3\"}", 2, "model_type", "did you mean 'deepseek_v3'"},
        BadModel{"another_version", "{\n\"model_type\": \"deepseek_v5\"}", 2, "model_type",
                 "'deepseek_v5' docs/models.md lists"},
        BadModel{"short_name", "{\n\"model_type\": \"apt\"}", 2, "model_type", "'apt' docs/models.md lists"},
        BadModel{"unlike_any_type", "{\n\"model_type\": \"t5\"}", 2, "model_type", "docs/models.md lists the types"},
        BadModel{"read_by_another_type",
                 "{\n\"model_type\": \"ours\", \"num_hidden_layers\": 2, \"hidden_size\": 8, \"vocab_size\": 9,\n"
                 "\"num_attention_heads\": 4, \"intermediate_size\": 8, \"num_key_value_heads\": 2, \"head_dim\": 2,\n"
                 "\"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 8, \"pad_token_id\": 0,\n"
                 "\"norm_topk_prob\": true, \"rms_norm_eps\": 1e-6, \"gate_rank\": 4\n}",
                 2, "model_type", "reads such keys, but for gate_rank; where it computes the same"},
        BadModel{"no_type", "{}", 0, "model_type", "required key is missing"},
        BadModel{"missing_dimension", llama("hidden_size"), 0, "hidden_size", "required dimension is missing"},
        BadModel{"misspelled_dimension", llama("hidden_size", "\"hiden_size\": 64"), 0, "hidden_size",
                 "is 'hiden_size' meant to be it?"},
        BadModel{"unknown_activation", llama("vocab_size", "\"vocab_size\": 9,\n\"hidden_act\": \"relu\""), 8,
                 "hidden_act", "one of silu"},
        BadModel{"certain_dropout", llama("vocab_size", "\"vocab_size\": 9,\n\"attention_dropout\": 1.0"), 8,
                 "attention_dropout", "below 1"},
        BadModel{"wrong_list",
                 "{\n\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 2, \"hidden_size\": 8,\n"
                 "\"num_attention_heads\": 4, \"intermediate_size\": 8, \"vocab_size\": 9, \"num_experts\": 4,\n"
                 "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 8,\n\"mlp_only_layers\": [0, -1]\n}",
                 5, "mlp_only_layers", "list of integers"},
        BadModel{"short_pattern",
                 "{\n\"model_type\": \"nemotron_h\", \"num_hidden_layers\": 3, \"hidden_size\": 8,\n"
                 "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 9,\n"
                 "\"hybrid_override_pattern\": \"M*\"}",
                 4, "hybrid_override_pattern", "one of M, *, - and E"},
        BadModel{"another_module_of_prediction",
                 "{\n\"model_type\": \"nemotron_h\", \"hidden_size\": 8, \"layers_block_type\": [\"moe\"],\n"
                 "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 9,\n"
                 "\"num_nextn_predict_layers\": 1, \"mtp_hybrid_override_pattern\": \"M\"}",
                 4, "mtp_hybrid_override_pattern", "attention and experts"},
        BadModel{
            "shared_indexers",
            "{\n\"model_type\": \"glm_moe_dsa\", \"num_hidden_layers\": 1, \"hidden_size\": 8, \"vocab_size\": 9,\n"
            "\"num_attention_heads\": 4, \"intermediate_size\": 8, \"kv_lora_rank\": 4, \"qk_nope_head_dim\": 2,\n"
            "\"qk_rope_head_dim\": 2, \"v_head_dim\": 2, \"n_routed_experts\": 8, \"num_experts_per_tok\": 2,\n"
            "\"moe_intermediate_size\": 4,\n\"indexer_types\": [\"shared\"]}",
            6, "indexer_types", "the first is full"},
        BadModel{"unknown_mixer",
                 "{\n\"model_type\": \"granitemoehybrid\", \"num_hidden_layers\": 1, \"hidden_size\": 64,\n"
                 "\"num_attention_heads\": 4, \"vocab_size\": 9, \"mamba_n_heads\": 2, \"layer_types\": [\"rwkv\"]\n}",
                 3, "layer_types", "one of linear_attention"},
        BadModel{"uneven_hidden_size",
                 "{\n\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 10,\n\"n_head\": 3, \"vocab_size\": 9}", 3,
                 "n_head", "must divide n_embd"},
        BadModel{"odd_rotation",
                 "{\n\"model_type\": \"gpt_neox\", \"num_hidden_layers\": 2, \"hidden_size\": 8, \"vocab_size\": 9,\n"
                 "\"num_attention_heads\": 2, \"intermediate_size\": 8,\n\"rotary_pct\": 0.3\n}",
                 4, "rotary_pct", "even"},
        BadModel{"zero_dimension", llama("hidden_size", "\"hidden_size\": 0"), 3, "hidden_size", "found 0"},
        BadModel{"negative_dimension", llama("num_hidden_layers", "\"num_hidden_layers\": -3"), 6, "num_hidden_layers",
                 "found -3"},
        BadModel{"more_layers_than_are_numbered", llama("num_hidden_layers", "\"num_hidden_layers\": 100000"), 6,
                 "num_hidden_layers", "from 1 to 1000, found 100000"},
        BadModel{"huge_dimension", llama("vocab_size", "\"vocab_size\": 18446744073709551615"), 7, "vocab_size",
                 "to 1000000"},
        BadModel{"text_dimension", llama("hidden_size", "\"hidden_size\": \"64\""), 3, "hidden_size", "found \"64\""},
        BadModel{"fraction", llama("hidden_size", "\"hidden_size\": 64.5"), 3, "hidden_size", "found 64.5"},
        BadModel{"uneven_heads", llama("vocab_size", "\"vocab_size\": 9,\n\"num_key_value_heads\": 3"), 8,
                 "num_key_value_heads", "evenly"},
        BadModel{"wrong_flag", llama("vocab_size", "\"vocab_size\": 9,\n\"tie_word_embeddings\": 1"), 8,
                 "tie_word_embeddings", "true or false"},
        BadModel{"syntax", "{\n\"model_type\": \"llama\",\n\"hidden_size\": ,\n}", 3, "", "not valid JSON"},
        BadModel{"empty", "", 1, "", "not valid JSON"}, BadModel{"list", "[1, 2]", 1, "", "expected a JSON object"}),
    [](const auto& parameter) { return std::string(parameter.param.what); });

TEST(Architecture, MissingFileIsAnInputError) {
  expect_error(load_architecture("/nowhere/config.json"), ErrorKind::input, "/nowhere/config.json", 0, "",
               "no such file");
}

TEST(Architecture, FolderIsAnInputError) {
  const TemporaryDirectory folder;
  const auto model = load_architecture(folder.path().string());
  ASSERT_FALSE(model);
  expect_error(model.error(), ErrorKind::input, folder.path().string(), 0, "", "folder");
}

Plan plan_with(const ConfigOverrides& overrides) {
  Plan plan;
  plan.file = "plan.toml";
  plan.model.overrides = overrides;
  for (const auto& [key, value] : overrides) plan.places["model." + key] = {"plan.toml", 3};
  return plan;
}

TEST(Overrides, ComeBeforeKeysOfATextModel) {
  const TemporaryDirectory folder;
  const auto path = folder.write("config.json", R"({"model_type": "llava", "num_hidden_layers": 99,
      "text_config": {"model_type": "qwen2", "vocab_size": 100, )" +
                                                    decoder + "}}");
  EXPECT_EQ(valid(load_architecture(path.string())).layers, 4);
  EXPECT_EQ(valid(load_architecture_of(plan_with({{"num_hidden_layers", std::int64_t{2}}}), path.string())).layers, 2);
}

Result<Architecture> deepseek_with(const ConfigOverrides& overrides) {
  return load_architecture_of(plan_with(overrides), shipped("examples/models/deepseek-v3.json"));
}

TEST(Architecture, KeysOfThePlanReplaceThoseOfTheFile) {
  const auto model = deepseek_with({{"n_routed_experts", std::int64_t{512}}, {"num_hidden_layers", std::int64_t{10}}});
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->experts.routed_experts, 512);
  EXPECT_EQ(model->layers, 10);
  EXPECT_EQ(model->hidden_size, 7168);  // as in the file
}

TEST(Architecture, AWrongKeyOfThePlanIsAnErrorAtItsPlaceThere) {
  expect_error(deepseek_with({{"hidden_size", std::string("big")}}), ErrorKind::input, "plan.toml", 3,
               "model.hidden_size", "expected an integer");
  // The key belongs to another type of model only.
  expect_error(load_architecture_of(plan_with({{"n_routed_experts", std::int64_t{8}}}),
                                    shipped("examples/models/llama-3-8b.json")),
               ErrorKind::input, "plan.toml", 3, "model.n_routed_experts", "has no such key");
}

// Without the key: the types differ in what holds.
TEST(Architecture, EmbeddingsAreTiedAsTheTypeHasThem) {
  EXPECT_TRUE(load_shipped("gemma-2-9b").tied_embedding);
  const TemporaryDirectory folder;
  EXPECT_FALSE(load_architecture(folder.write("config.json", llama()).string())->tied_embedding);
}

TEST(Architecture, TypesOfLlamasShape) {
  const TemporaryDirectory folder;
  const auto read = [&](const std::string& type) {
    std::string text = llama("vocab_size", "\"vocab_size\": 1000,\n\"num_key_value_heads\": 2");
    text.replace(text.find("llama"), 5, type);
    return load_architecture(folder.write("config.json", text).string()).value();
  };
  const Architecture plain = read("llama");
  for (const char* type : {"granite", "internlm2", "olmo2", "phi3"}) {
    const Architecture model = read(type);
    EXPECT_EQ(model.key_value_heads, 2) << type;
    EXPECT_EQ(model.intermediate_size, plain.intermediate_size) << type;
    EXPECT_EQ(model.head_dim, plain.head_dim) << type;
    EXPECT_EQ(model.query_key_norm, std::string(type) == "olmo2") << type;
    EXPECT_EQ(model.biases.query_key_value, std::string(type) == "internlm2") << type;
  }
}

TEST(Architecture, KeysThatContradictTheFileAreInfeasible) {
  const auto model = deepseek_with({{"n_routed_experts", std::int64_t{100}}});  // does not divide by 8 groups
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::infeasible);
  EXPECT_EQ(model.error().key, "n_group");
}

// Positions are no dimension of a tensor: models are made for sequences of ten million tokens.
TEST(Architecture, LongestSequencesAreNoDimensions) {
  const auto positions = [](const std::string& name) { return load_shipped(name).longest_sequence; };
  EXPECT_EQ(positions("llama-3-8b"), 8192);
  EXPECT_EQ(positions("llama-4-maverick"), 1'048'576);
  EXPECT_EQ(positions("llama-4-scout"), 10'485'760);
  EXPECT_EQ(positions("minimax-m1"), 10'240'000);
  // A model inside another one has its own key.
  const TemporaryDirectory folder;
  const char* of_llama =
      R"("hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2, )"
      R"("vocab_size": 512, )";
  for (const char* object : {"text_config", "language_config", "llm_config", "thinker_config"}) {
    const std::string path = (folder.path() / "config.json").string();
    std::ofstream(path) << "{\"model_type\": \"llama\", \"" << object << "\": {" << of_llama
                        << "\"max_position_embeddings\": 4096}}";
    EXPECT_EQ(load_architecture(path).value().longest_sequence, 4096) << object;
  }
  // Positions that are stretched: DeepSeek-V3's key has them already, Qwen's has what they are stretched from.
  const auto stretched = [&](const char* scaling) {
    const std::string path = (folder.path() / "config.json").string();
    std::ofstream(path) << "{\"model_type\": \"llama\", " << of_llama << "\"max_position_embeddings\": 32768, "
                        << scaling << "}";
    return load_architecture(path).value().longest_sequence;
  };
  EXPECT_EQ(stretched(R"("rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768})"),
            131'072);
  const std::string of_8192 = R"("rope_parameters": {"original_max_position_embeddings": 8192, "factor": )";
  EXPECT_EQ(stretched((of_8192 + R"(8.0, "rope_type": "yarn"})").c_str()), 65'536);
  EXPECT_EQ(stretched((of_8192 + R"(32.0, "rope_type": "llama3"})").c_str()), 32'768);
  EXPECT_EQ(stretched((of_8192 + R"(-1e300, "rope_type": "yarn"})").c_str()), 32'768);
  EXPECT_EQ(stretched(R"("rope_scaling": {"type": "linear", "factor": 4.0})"), 32'768);
  EXPECT_EQ(stretched(R"("rope_scaling": null)"), 32'768);
}

// As DeepSeek, Transformers, ModelOpt, compressed-tensors and Quark write it.
TEST(Architecture, FilesStateTheFormatsOfTheirCheckpoints) {
  const TemporaryDirectory folder;
  const auto formats = [&](const std::string& quantization) {
    const std::string path = (folder.path() / "config.json").string();
    std::ofstream(path) << R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, )"
                        << R"("num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 512, )"
                        << "\"quantization_config\": " << quantization << "}";
    const CheckpointFormats found = load_architecture(path).value().checkpoint;
    return found.weights + "/" + found.key_values;
  };
  EXPECT_EQ(formats("null"), "/");
  EXPECT_EQ(formats(R"({"quant_method": "fp8", "weight_block_size": [128, 128]}, "expert_dtype": "fp4")"), "mxfp4/");
  EXPECT_EQ(formats(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})"), "fp8/");
  EXPECT_EQ(formats(R"({"quant_method": "mxfp4"})"), "mxfp4/");
  EXPECT_EQ(formats(R"({"quant_method": "awq", "bits": 4})"), "int4/");
  EXPECT_EQ(formats(R"({"quant_method": "gptq", "bits": 8})"), "/");
  EXPECT_EQ(formats(R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": {"num_bits": 8}})"),
            "nvfp4/fp8");
  EXPECT_EQ(formats(R"({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"})"),
            "fp8_tensor/fp8");
  EXPECT_EQ(formats(R"({"quant_method": "compressed-tensors", "format": "float-quantized", "kv_cache_scheme": null})"),
            "fp8_tensor/");
  EXPECT_EQ(
      formats(R"({"format": "float-quantized", "config_groups": {"group_0": {"weights": {"strategy": "block"}}}})"),
      "fp8/");
  EXPECT_EQ(formats(R"({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}})"), "mxfp4/");
}

// A pattern that is longer than a model may be is an error, not a shorter model.
TEST(Architecture, LayersPastTheLimitAreRefused) {
  auto config = ConfigReader::empty();
  EXPECT_EQ(config.layers("num_hidden_layers", 1'000), 1'000);
  EXPECT_FALSE(config.error());
  config.layers("num_hidden_layers", 1'001);
  ASSERT_TRUE(config.error());
  EXPECT_THAT(config.error()->message, testing::HasSubstr("1001 layers are more than 1000"));
}

TEST(Architecture, EveryKeyThatIsReadIsKnown) {
  const auto keys = config_keys();
  for (const char* key : {"hidden_size", "n_routed_experts", "topk_group", "q_lora_rank", "head_dim", "topk_method",
                          "num_nextn_predict_layers", "model_type"})
    EXPECT_EQ(std::ranges::count(keys, key), 1) << key;
}

}  // namespace
}  // namespace plumbline::model
