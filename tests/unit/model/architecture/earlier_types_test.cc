// Types of earlier years, by the config.json files of their largest or best-known models.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "model/architecture/metrics.h"
#include "model/layers/blocks.h"
#include "tests/support/config_files.h"

namespace plumbline::model {
namespace {

using tests::decoder;
using tests::made;
using tests::minimal;

// Parameters by the dimensions of published files: H hidden, L layers, V vocabulary, I intermediate, h heads, k heads
// of keys and values, d columns of a head, F and E width and number of experts.
TEST(EarlierTypes, PublishedFilesHaveTheCountsOfTheirDimensions) {
  struct Counted {
    const char* type;
    const char* keys;
    double parameters;
  };
  for (const auto& [type, keys, parameters] :
       {// VH + 2H + L ((h + 2)dH + HH + 8HH + 2H), 7B
        Counted{"falcon", R"("vocab_size": 65024, "hidden_size": 4544, "num_hidden_layers": 32,
                  "num_attention_heads": 71, "num_kv_heads": 71, "alibi": false, "bias": false, "multi_query": true,
                  "new_decoder_architecture": false, "parallel_attn": true)",
                6921720704},
        // VH + 2H + L ((h + 2k)dH + HH + 8HH + 4H), 40B
        {"falcon", R"("vocab_size": 65024, "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
                  "num_kv_heads": 8, "new_decoder_architecture": true)",
         41303293952},
        // VH + 4H + L (12HH + 13H): the model card states this number
        {"bloom", R"("vocab_size": 250880, "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112)", 176247271424},
        // 2VH + H + L ((h + 2k)dH + HH + E (3HF + H) + 2H), 132B
        {"dbrx", R"("vocab_size": 100352, "d_model": 6144, "n_layers": 40, "n_heads": 48,
                    "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000},
                    "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4})",
         131596523520},
        // 2VH + V + 2H + L (12HH + 7H), 6B and 16B
        {"gptj", R"("vocab_size": 50400, "n_embd": 4096, "n_layer": 28, "n_head": 16, "rotary_dim": 64)", 6050882784},
        {"codegen", R"("vocab_size": 51200, "n_embd": 6144, "n_layer": 34, "n_head": 24, "rotary_dim": 64)",
         16032155648},
        // VH + 2048H + 2H + L (12HH + 10H), 2.7B
        {"gpt_neo", R"("vocab_size": 50257, "hidden_size": 2560, "num_layers": 32, "num_heads": 20,
                       "intermediate_size": null)",
         2651307520},
        // VH + 8192H + 2H + L (10HH + 2dH + 2d + 11H), 15.5B
        {"gpt_bigcode", R"("vocab_size": 49152, "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_inner": 24576,
                           "n_positions": 8192, "multi_query": true)",
         15517456384},
        // 2VH + V + 2H + L (12HH + 11H), 2.7B
        {"phi", R"("vocab_size": 51200, "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32,
                   "num_attention_heads": 32, "partial_rotary_factor": 0.4)",
         2779683840},
        // 2VH + 2H + L (12HH + 13H + 4d), 9.3B
        {"persimmon", R"("vocab_size": 262144, "hidden_size": 4096, "intermediate_size": 16384,
                         "num_hidden_layers": 36, "num_attention_heads": 64)",
         9397175296},
        // 2VH + L (4HH + 3HI), 6.9B
        {"olmo", R"("vocab_size": 50304, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
                    "num_attention_heads": 32, "clip_qkv": null)",
         6888095744},
        // 2VH + H + L (2HH + 2kdH + 3HI + 2H), 8B
        {"emu3", R"("text_config": {"model_type": "emu3_text_model", "vocab_size": 184622, "hidden_size": 4096,
                    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32})",
         8492011520},
        // VH + H + L (2HH + 2kdH + 3HI + 3H + I), 2B
        {"bitnet", R"("vocab_size": 128256, "hidden_size": 2560, "intermediate_size": 6912, "num_hidden_layers": 30,
                      "num_attention_heads": 20, "num_key_value_heads": 5, "tie_word_embeddings": true)",
         2412820480},
        // 2VH + H + L (4HH + 3H + 3HI / 2 + 2H), 7B: gate and MLP have half of I each
        {"qwen", R"("vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
                    "num_attention_heads": 32, "kv_channels": 128, "no_bias": true, "rotary_pct": 1.0,
                    "tie_word_embeddings": false)",
         7721324544},
        // 2VH + H + L (4HH + 4H + 3HI + 2H), 7B
        {"internlm", R"("vocab_size": 103168, "hidden_size": 4096, "intermediate_size": 11008,
                        "num_hidden_layers": 32, "num_attention_heads": 32, "bias": true)",
         7321948160},
        // 2VH + H + L ((h + 2k)d(H + 1) + HH + 3HI + 2H), 9B: as its later file of type glm
        {"chatglm", R"("padded_vocab_size": 151552, "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 40,
                       "num_attention_heads": 32, "multi_query_attention": true, "multi_query_group_num": 2,
                       "add_bias_linear": false, "add_qkv_bias": true, "kv_channels": 128, "rmsnorm": true)",
         9399951360},
        // 2VH + H + L (4HH + (E + 2) 3HF + EH + 2H), 25.3B with what sees
        {"aria", R"("text_config": {"model_type": "aria_text", "vocab_size": 100352, "hidden_size": 2560,
                    "intermediate_size": 1664, "num_hidden_layers": 28, "num_attention_heads": 20,
                    "num_key_value_heads": 20, "moe_num_experts": 64, "moe_topk": 6})",
         24869091840},
        // 2VH + H + L (4HH + 3HI + 2H) and VH + H + L ((h + 2k)dH + HH + 3HI + 2H): 3.8B without what sees and hears
        {"phi3_v", R"("vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
                      "num_attention_heads": 32, "num_key_value_heads": 32)",
         3821079552},
        {"phi4mm", R"("vocab_size": 200064, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
                      "num_attention_heads": 24, "num_key_value_heads": 8, "partial_rotary_factor": 0.75,
                      "tie_word_embeddings": true)",
         3836021760},
        {"phi4_multimodal", R"("vocab_size": 200064, "hidden_size": 3072, "intermediate_size": 8192,
                               "num_hidden_layers": 32, "num_attention_heads": 24, "tie_word_embeddings": true)",
         3836021760}}) {
    const Architecture model = made(type, keys);
    EXPECT_EQ(model_metrics(model, 64).parameters, parameters) << type;
    const LayerContext c{.architecture = model, .tokens = 64, .sequence_length = 64};
    EXPECT_EQ(check(make_block(layer_kind(model, model.layers - 1), c)), "") << type;
  }
}

// Falcon RW has ALiBi, biases and a key for each head; Falcon 2 has groups of heads and one norm.
TEST(EarlierTypes, FalconsDifferInNormsAndKeys) {
  const std::string sizes = R"("n_layer": 2, "hidden_size": 64, "n_head": 8)";
  const Architecture seven = made("falcon", sizes);
  EXPECT_TRUE(seven.parallel_residual && seven.shared_norm && seven.norm_bias && seven.tied_embedding);
  EXPECT_FALSE(seven.biases.mlp || seven.biases.query_key_value);
  EXPECT_EQ(seven.key_value_heads, 1);
  EXPECT_TRUE(seven.omitted.what.empty());  // it is executed
  const Architecture rw = made("falcon", sizes + R"(, "alibi": true, "bias": true, "multi_query": false,
                                                    "parallel_attn": false)");
  EXPECT_EQ(rw.positions, PositionKind::alibi);
  EXPECT_FALSE(rw.parallel_residual || rw.shared_norm);
  EXPECT_TRUE(rw.biases.attention_output);
  EXPECT_EQ(rw.key_value_heads, 8);
  const std::string groups = sizes + R"(, "new_decoder_architecture": true, "n_head_kv": )";
  const Architecture forty = made("falcon", groups + "2");
  EXPECT_TRUE(forty.parallel_residual && !forty.shared_norm);
  EXPECT_EQ(forty.key_value_heads, 2);
  EXPECT_TRUE(made("falcon", groups + R"(2, "num_ln_in_parallel_attn": 1)").shared_norm);
  EXPECT_EQ(minimal("falcon", groups + "3").error().key, "n_head_kv");
}

TEST(EarlierTypes, EachSecondLayerOfGptNeoHasAWindow) {
  const std::string sizes = R"("num_layers": 4, "hidden_size": 64, "num_heads": 8)";
  const Architecture model = made("gpt_neo", sizes);
  EXPECT_EQ(model.layer(0).mixer, Mixer::attention);
  EXPECT_EQ(model.layer(1).mixer, Mixer::windowed_attention);
  EXPECT_EQ(model.layer(2).mixer, Mixer::attention);
  EXPECT_EQ(model.window.tokens, 256);
  EXPECT_TRUE(model.biases.attention_output && !model.biases.query_key_value);
  const Architecture named = made("gpt_neo", sizes + R"(, "attention_layers": ["local", "global", "global", "local"])");
  EXPECT_EQ(named.layer(0).mixer, Mixer::windowed_attention);
  EXPECT_EQ(named.layer(2).mixer, Mixer::attention);
  EXPECT_EQ(minimal("gpt_neo", sizes + R"(, "attention_layers": ["local"])").error().key, "attention_layers");
  // Files as they were published repeat lists of names.
  const std::string types = sizes + R"(, "attention_types": )";
  EXPECT_EQ(made("gpt_neo", types + R"([[["local"], 1], [["global"], 2], [["local"], 1]])").pattern, named.pattern);
  const Architecture turned = made("gpt_neo", types + R"([[["local", "global"], 2]])");
  EXPECT_EQ(turned.layer(2).mixer, Mixer::windowed_attention);
  EXPECT_EQ(turned.layer(3).mixer, Mixer::attention);
  for (const char* wrong : {R"([[["global", "local"], 1]])", R"([[["global", "local"], -2]])", R"([[["local"], 1001]])",
                            R"([[["global", 3], 2]])", R"([["global", "local"], 2])"})
    EXPECT_EQ(minimal("gpt_neo", types + wrong).error().key, "attention_types") << wrong;
}

TEST(EarlierTypes, GptJAndPhiNormaliseOnce) {
  const std::string sizes = R"("n_layer": 2, "n_embd": 64, "n_head": 2)";
  const Architecture gptj = made("gptj", sizes + R"(, "rotary_dim": 16)");
  const Architecture phi = made("phi", decoder + R"(, "num_attention_heads": 2, "resid_pdrop": 0.1)");
  for (const Architecture& model : {gptj, phi}) {
    EXPECT_TRUE(model.parallel_residual && model.shared_norm && model.norm_bias && model.biases.mlp);
    EXPECT_EQ(model.rotary_dim, 16);
    EXPECT_EQ(model.omitted.parameters, 100);  // the bias of the output
  }
  EXPECT_TRUE(phi.biases.query_key_value && !gptj.biases.query_key_value);
  EXPECT_EQ(phi.dropout.residual, 0.1);
  EXPECT_EQ(gptj.dropout, Dropout{});
  EXPECT_EQ(minimal("gptj", sizes + R"(, "rotary_dim": 64)").error().key, "rotary_dim");
  EXPECT_EQ(made("phi", decoder + R"(, "num_attention_heads": 2, "qk_layernorm": true)").omitted.parameters,
            100 + 4 * 2 * 32);
}

TEST(EarlierTypes, ChatGlmIsReadAsGlm) {
  const Architecture glm = made("glm", decoder + R"(, "num_attention_heads": 2, "head_dim": 32, "rope_theta": 5e6,
                                                     "attention_bias": true, "num_key_value_heads": 1)");
  const std::string sizes = R"("padded_vocab_size": 100, "num_layers": 4, "hidden_size": 64, "num_attention_heads": 2,
      "kv_channels": 32, "ffn_hidden_size": 128, "multi_query_attention": true, "add_qkv_bias": true,
      "rope_ratio": 500, "layernorm_epsilon": 1.5625e-07)";
  Architecture model = made("chatglm", sizes);
  model.name = glm.name;
  model.model_type = glm.model_type;
  EXPECT_EQ(model, glm);
  EXPECT_EQ(made("chatglm", sizes + R"(, "rmsnorm": false)").norm, NormKind::layer);
  EXPECT_EQ(minimal("chatglm", sizes + R"(, "multi_query_group_num": 3)").error().key, "multi_query_group_num");
  EXPECT_EQ(minimal("chatglm", R"("num_layers": 28, "inner_hidden_size": 16384)").error().key, "inner_hidden_size");
}

TEST(EarlierTypes, DecodersOfLlamasShapeHaveKeysOfTheirOwn) {
  const Architecture qwen = made("qwen", decoder + R"(, "kv_channels": 4, "no_bias": false, "rotary_emb_base": 5e5,
                                                  "attn_dropout_prob": 0.1, "emb_dropout_prob": 0.2)");
  EXPECT_TRUE(qwen.biases.query_key_value && qwen.biases.attention_output && qwen.biases.mlp);
  EXPECT_EQ(qwen.head_dim, 4);
  EXPECT_EQ(qwen.rope_theta, 5e5);
  EXPECT_EQ(qwen.dropout, (Dropout{.embedding = 0.2, .attention = 0.1}));
  // Names that its class does not have change nothing.
  EXPECT_EQ(made("qwen", decoder + R"(, "head_dim": 4, "rope_theta": 5e5, "attention_dropout": 0.1)"),
            made("qwen", decoder));
  EXPECT_FALSE(made("internlm", decoder + R"(, "bias": false)").biases.query_key_value);
  EXPECT_EQ(made("Emu3", decoder).dropout, (Dropout{.attention = 0.1, .residual = 0.1}));
  EXPECT_EQ(made("bitnet", decoder + R"(, "num_key_value_heads": 8)").mlp, MlpKind::swiglu);
  // Aria's first file; a token uses at most as many experts as there are.
  const Architecture aria = made("aria", R"("text_config": {"model_type": "aria_moe_lm", )" + decoder +
                                             R"(, "moe_intermediate_size": 32, "moe_num_experts": 4})");
  EXPECT_EQ(aria.experts.intermediate_size, 32);
  EXPECT_EQ(aria.experts.shared_width(), 64);
  EXPECT_TRUE(aria.is_moe_layer(0) && aria.experts.normalize_weights);
  EXPECT_EQ(minimal("aria_text", decoder + R"(, "moe_topk": 9)").error().key, "moe_topk");
}

// Clamps and what norms subtract are named; dropout of the MLP alone is refused.
TEST(EarlierTypes, WhatCostsElsewhereIsNamed) {
  for (const auto& [type, key] : {std::pair{"olmo", R"(, "clip_qkv": 8.0)"}, {"olmoe", R"(, "clip_qkv": 8.0)"}}) {
    EXPECT_EQ(made(type, decoder + key).omitted.what.size(), made(type, decoder).omitted.what.size() + 1) << type;
    EXPECT_EQ(made(type, decoder + R"(, "clip_qkv": null)"), made(type, decoder)) << type;
  }
  EXPECT_FALSE(made("olmo", decoder).norm_gains);
  EXPECT_EQ(minimal("persimmon", decoder + R"(, "num_attention_heads": 2, "hidden_dropout": 0.1)").error().key,
            "hidden_dropout");
  EXPECT_FALSE(made("persimmon", decoder + R"(, "num_attention_heads": 2, "qk_layernorm": false)").query_key_norm);
  const std::string dbrx = R"("n_layers": 2, "d_model": 64, "n_heads": 8, "attn_config": {"kv_n_heads": )";
  const Architecture experts = made("dbrx", dbrx + R"(2}, "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4,
                                                      "moe_top_k": 2})");
  EXPECT_TRUE(experts.is_moe_layer(0) && experts.experts.normalize_weights && !experts.norm_bias);
  EXPECT_TRUE(experts.omitted.what.empty());
  EXPECT_FALSE(
      made("dbrx", dbrx + R"(2}, "ffn_config": {"moe_normalize_expert_weights": null})").experts.normalize_weights);
  EXPECT_EQ(minimal("dbrx", dbrx + "3}").error().key, "attn_config.kv_n_heads");
}

}  // namespace
}  // namespace plumbline::model
