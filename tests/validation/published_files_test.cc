// Parameter counts of config.json files of types of which no model is shipped, compared with those that follow from the
// dimensions and, rounded, are on the model cards.
#include <gtest/gtest.h>

#include <string>

#include "model/architecture/load_architecture.h"
#include "model/architecture/metrics.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

struct PublishedFile {
  const char* name;
  const char* text;
  double parameters;
  const char* source;
};

// With H hidden, L layers, V vocabulary, I intermediate, h heads, k key-value heads, d head:
//   OPT          (V + 2050) H + 2H + L (12HH + 13H)
//   StarCoder2   VH + 2H + L ((h + 2k)d(H + 1) + hdH + H + 2HI + I + H + 4H), twice VH where the head has its own
//   Gemma        VH + H + L (4hdH + 3HI + 2H)
//   DeepSeekMoE  2VH + H + L (4HH + 2H) + 3HI + (L - 1) (66 * 3HF + 64H)
//   GLM          2VH + H + L ((h + 2k)d(H + 1) + hdH + 3HI + 2H)
//   EXAONE       2VH + H + L ((h + 2k)dH + hdH + 3HI + 2H)
//   OLMo Hybrid  2VH + H + L (3HI + 2H) and 8 layers 4HH + 2H, 24 of Gated DeltaNet (parameter_counts_test.cc)
//   dots.llm1    2VH + H + L (4HH + 2H + 2d) + 3HI + (L - 1) (130 * 3HF + 128H)
const PublishedFile files[] = {
    {"opt_6_7b", R"({"model_type": "opt", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                     "ffn_dim": 16384, "vocab_size": 50272, "word_embed_proj_dim": 4096,
                     "activation_function": "relu", "do_layer_norm_before": true})",
     6658473984, "facebook/opt-6.7b"},
    {"starcoder2_7b", R"({"model_type": "starcoder2", "hidden_size": 4608, "num_hidden_layers": 32,
                          "num_attention_heads": 36, "num_key_value_heads": 4, "intermediate_size": 18432,
                          "vocab_size": 49152, "sliding_window": 4096, "hidden_act": "gelu_pytorch_tanh"})",
     7173923840, "bigcode/starcoder2-7b"},
    {"starcoder2_15b", R"({"model_type": "starcoder2", "hidden_size": 6144, "num_hidden_layers": 40,
                           "num_attention_heads": 48, "num_key_value_heads": 4, "intermediate_size": 24576,
                           "vocab_size": 49152, "sliding_window": 4096, "tie_word_embeddings": false})",
     15957889024, "bigcode/starcoder2-15b"},
    {"gemma_7b", R"({"model_type": "gemma", "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
                     "num_key_value_heads": 16, "head_dim": 256, "intermediate_size": 24576, "vocab_size": 256000,
                     "hidden_act": "gelu", "hidden_activation": null})",
     8537680896, "google/gemma-7b, whose card says 8.54B"},
    {"deepseek_moe_16b", R"({"model_type": "deepseek", "hidden_size": 2048, "num_hidden_layers": 28,
                             "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 10944,
                             "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
                             "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1,
                             "norm_topk_prob": false, "scoring_func": "softmax", "vocab_size": 102400})",
     16375728128, "deepseek-ai/deepseek-moe-16b-base: arXiv 2401.06066 says 16.4B"},
    {"glm_4_9b", R"({"model_type": "glm", "hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32,
                     "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 13696, "vocab_size": 151552,
                     "attention_bias": true, "partial_rotary_factor": 0.5})",
     9399951360, "zai-org/glm-4-9b-hf, whose card says 9.4B"},
    {"exaone_3_5_7_8b", R"({"model_type": "exaone", "hidden_size": 4096, "num_layers": 32, "num_attention_heads": 32,
                            "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336,
                            "vocab_size": 102400, "activation_function": "silu"})",
     7818448896, "LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct"},
    {"olmo_hybrid_7b", R"({"model_type": "olmo_hybrid", "hidden_size": 3840, "num_hidden_layers": 32,
                           "num_attention_heads": 30, "intermediate_size": 11008, "vocab_size": 100352})",
     7430870688, "the class's own sizes, OlmoHybridConfig of huggingface/transformers"},
    {"dots_llm1", R"({"model_type": "dots1", "hidden_size": 4096, "num_hidden_layers": 62, "num_attention_heads": 32,
                      "num_key_value_heads": 32, "head_dim": 128, "intermediate_size": 10944,
                      "moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 2,
                      "num_experts_per_tok": 6, "first_k_dense_replace": 1, "scoring_func": "noaux_tc",
                      "sliding_window": null, "vocab_size": 152064})",
     142774373888, "rednote-hilab/dots.llm1.base: arXiv 2506.05767 says 142B; no selection biases"},
};

class PublishedFileCount : public testing::TestWithParam<PublishedFile> {};

TEST_P(PublishedFileCount, FollowsFromItsDimensions) {
  const tests::TemporaryDirectory folder;
  const auto model = load_architecture(folder.write("config.json", GetParam().text).string());
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model_metrics(*model, 1024).parameters, GetParam().parameters) << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(Published, PublishedFileCount, testing::ValuesIn(files),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace plumbline::model
