// Published sizes of the shipped models compared with the counts of the operator graphs.
#include "model/architecture/metrics.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/architectures.h"

namespace plumbline::model {
namespace {

using tests::architecture;

struct PublishedSize {
  const char* model;
  double exact;  // parameters by the dimensions, derived below
  double published;
  double rounding;  // half of the last published digit
  const char* source;
};

// Exact counts. Per layer with multi-head latent attention, H hidden, h heads, latents q and c:
//   attention = H q + q + q h (dn + dr) + H (c + dr) + c + c h (dn + dv) + h dv H; two norms 2 H
//   dense MLP 3 H I; MoE layer 3 H I_e (experts + shared) + H experts (router)
// and 2 V H + H for embedding, head and final norm.
//   DeepSeek-V3: attention 187,107,328; its layers are spelled out in a test below.
//   Grouped-query models: layer = H (h + 2 kv) d + h d H + 3 H I + 2 H.
//   Llama 3 8B:   32 * 218,112,000 + 2 * 128256 * 4096 + 4096
//   Llama 3 405B: 126 * 3,187,703,808 + 2 * 128256 * 16384 + 16384
//   DeepSeek 67B: 95 * 692,076,544 + 2 * 102400 * 8192 + 8192
const PublishedSize sizes[] = {
    {"deepseek-v3", 671026404352, 671e9, 0.5e9, "DeepSeek-V3 README: 671B, the multi-token-prediction module apart"},
    {"deepseek-v2", 235741434880, 236e9, 0.5e9, "arXiv 2405.04434, abstract: 236B"},
    {"deepseek-67b", 67425001472, 67e9, 0.5e9, "arXiv 2401.02954: 67B"},
    {"llama-3-8b", 8030261248, 8.03e9, 0.005e9, "Hugging Face model card of Meta-Llama-3-8B: 8.03B"},
    {"llama-3-405b", 405853388800, 405e9, 1e9, "arXiv 2407.21783, table 3: 405B (405.9B by its dimensions)"},
};

class ModelSize : public testing::TestWithParam<PublishedSize> {};

TEST_P(ModelSize, EqualsTheModelCard) {
  const double parameters = model_metrics(architecture(GetParam().model), 4096).parameters;
  EXPECT_EQ(parameters, GetParam().exact);
  EXPECT_NEAR(parameters, GetParam().published, GetParam().rounding) << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(Published, ModelSize, testing::ValuesIn(sizes), [](const auto& parameter) {
  std::string name = parameter.param.model;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

TEST(DeepSeekV3, ParametersFollowFromTheDimensions) {
  const double attention =
      7168.0 * 1536 + 1536 + 1536.0 * 128 * 192 + 7168.0 * 576 + 512 + 512.0 * 128 * 256 + 128.0 * 128 * 7168;
  const double norms = 2 * 7168;
  const double expert = 3.0 * 7168 * 2048;
  const double dense_layer = attention + norms + 3.0 * 7168 * 18432;
  const double moe_layer = attention + norms + 257 * expert + 256.0 * 7168;
  const double ends = 2.0 * 129280 * 7168 + 7168;
  const ModelMetrics metrics = model_metrics(architecture("deepseek-v3"), 4096);
  EXPECT_EQ(metrics.parameters, 3 * dense_layer + 58 * moe_layer + ends);
  // Activated: 8 of 256 experts; of the embedding the row that a token looks up. 36.6 B, published as 37 B
  // (arXiv 2412.19437, abstract); with the whole table it would be 37.6 B.
  EXPECT_EQ(metrics.active_parameters,
            3 * dense_layer + 58 * (moe_layer - 248 * expert) + 129280.0 * 7168 + 7168 + 7168);
  EXPECT_NEAR(metrics.active_parameters, 37e9, 0.5e9);
  // The module of multi-token prediction: a MoE layer, the projection of two streams, three norms. Published
  // as 11.5 B without the shared embedding and head (README of the weights).
  EXPECT_EQ(metrics.prediction_parameters, moe_layer + 2.0 * 7168 * 7168 + 3 * 7168);
  EXPECT_NEAR(metrics.prediction_parameters, 11.5e9, 0.01 * 11.5e9 + 0.05e9);
}

TEST(DeepSeekV2, ActivatedParameters) {
  // arXiv 2405.04434, abstract: 21B activated for each token.
  EXPECT_NEAR(model_metrics(architecture("deepseek-v2"), 4096).active_parameters, 21e9, 0.5e9);
}

TEST(DeepSeekV3, TrainingFlopsPerToken) {
  // Consistent with arXiv 2505.09343, table 4: MFU 43.73 % (non-causal) and 38.94 % (causal) of 989 TFLOP/s
  // on 2,048 GPUs at 15360 * 4096 tokens in 19.926 s, i.e. 280.5 and 249.8 GFLOP per token; by the
  // dimensions 281.15 and 250.45.
  const ModelMetrics metrics = model_metrics(architecture("deepseek-v3"), 4096);
  EXPECT_NEAR(metrics.flops_per_token, 281.15e9, 0.005 * 281.15e9);
  EXPECT_NEAR(metrics.flops_per_token_causal, 250.45e9, 0.005 * 250.45e9);
  // Six per activated matrix parameter, and attention over 4096 keys: 3 * 2 * 4096 * 128 * (192 + 128) per layer.
  const double matrices = metrics.active_parameters - 7168 - 61 * (2 * 7168 + 1536 + 512) - 7168;
  const double attention = 61 * 6.0 * 4096 * 128 * 320;
  EXPECT_NEAR(metrics.flops_per_token, 6 * matrices + attention, 1e3);
  EXPECT_NEAR(metrics.flops_per_token_causal, 6 * matrices + attention / 2, 1e3);
}

TEST(DenseModels, EveryParameterIsActive) {
  for (const char* name : {"deepseek-67b", "llama-3-8b", "llama-3-405b"}) {
    const Architecture a = architecture(name);
    const ModelMetrics metrics = model_metrics(a, 8192);
    const auto rows = static_cast<double>((a.vocabulary - 1) * a.hidden_size);  // of the table, not looked up
    EXPECT_EQ(metrics.active_parameters, metrics.parameters - rows) << name;
    EXPECT_EQ(metrics.prediction_parameters, 0) << name;
  }
}

TEST(DenseModels, LongerSequencesCostMoreInAttentionOnly) {
  const Architecture a = architecture("llama-3-8b");
  const ModelMetrics shorter = model_metrics(a, 4096);
  const ModelMetrics longer = model_metrics(a, 8192);
  EXPECT_EQ(shorter.parameters, longer.parameters);
  // 4096 more keys, 32 layers, 32 heads of 128 for keys and values: 3 * 2 * (128 + 128) each.
  EXPECT_NEAR(longer.flops_per_token - shorter.flops_per_token, 32.0 * 4096 * 32 * 6 * 256, 1e3);
}

}  // namespace
}  // namespace plumbline::model
