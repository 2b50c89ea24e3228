// Attention to the tokens that an indexer chooses, against counts derived from the dimensions of DeepSeek-V3.2.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "model/architecture/metrics.h"
#include "model/cost/kernel_cost.h"
#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "model/layers/key_value_cache.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "tests/support/architectures.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

using tests::only;

LayerContext context_of(std::int64_t tokens, bool decodes, double cached = 0) {
  LayerContext c;
  c.architecture = tests::architecture("deepseek-v3.2");
  c.tokens = c.sequence_length = tokens;
  c.groups_per_token = 4;
  if (!decodes) return c;
  c.inference = {.kind = InferencePass::Kind::decode, .requests = tokens, .new_tokens = 1, .cached_tokens = cached};
  c.inference.shared_tokens = true;
  return c;
}

// Returns the key that is refused, if one is.
std::optional<std::string> refused(const Plan& plan, const Architecture& model) {
  const auto layout = make_layout(plan, model);
  return layout ? std::nullopt : std::optional(layout.error().key);
}

// A latent and a rotary key of 576 columns, and a key of the indexer of 128 in FP8 with one FP32 scale.
TEST(SparseAttention, KeepsAKeyOfTheIndexerForEachToken) {
  EXPECT_EQ(cache_bytes(tests::architecture("deepseek-v3.2"), DataType::bf16, 8, 1), 61 * (576 * 2.0 + 128 + 4));
}

// The indexer has 64 heads of 128 for every token of the context, attention 128 heads of 576 and 512 for 2048 of them.
TEST(SparseAttention, ADecodedTokenReadsAllIndexKeysAndTheChosenLatents) {
  for (const double context : {1000.0, 4096.0, 65536.0}) {
    const Graph layer = make_block(BlockKind::dense_layer, context_of(16, true, context - 1));
    EXPECT_EQ(check(layer), "");
    const double seen = std::min(context, 2048.0);
    EXPECT_DOUBLE_EQ(flops(layer, only(layer, OperatorKind::cached_index_scores), 1, true).value(),
                     16 * context * 64 * 128 * 2);
    const Operator& attention = only(layer, OperatorKind::cached_attention);
    EXPECT_DOUBLE_EQ(flops(layer, attention, 1, true).value(), 16 * seen * 128 * (576 + 512) * 2);
    const double latents = 16 * seen * 576 * 2, rows = 16 * 128 * (576 + 512) * 2.0;
    EXPECT_NEAR(bytes_moved(layer, attention, 1).value(), latents + rows, 1e3);
    const Operator& scores = only(layer, OperatorKind::cached_index_scores);
    EXPECT_GE(bytes_moved(layer, scores, 1).value(), 16 * context * 132);
    EXPECT_EQ(layer.tensor(scores.reads[0]).type, DataType::fp8_tile);  // queries
  }
}

// The rows of a prompt are blocks for all SMs: beyond its products a kernel has its start alone, not merges of results
// that grow with the rows.
TEST(SparseAttention, APromptDividesNoKeys) {
  LayerContext c = context_of(4096, false);
  c.inference = {.kind = InferencePass::Kind::prefill, .requests = 1, .new_tokens = 4096};
  const Graph layer = make_block(BlockKind::dense_layer, c);
  const KernelCost cost = KernelCost::make(tests::profile("h800"), tests::h800_device()).value();
  for (const OperatorKind kind : {OperatorKind::cached_attention, OperatorKind::cached_index_scores}) {
    const Operator& op = only(layer, kind);
    EXPECT_LT(cost.time(layer, op, {.sms = 132}).seconds, cost.best(layer, op) + 50e-6);
  }
}

// Beyond 2048 tokens each further one of the sequence adds scores of the indexer alone: forward over half of the
// tokens.
TEST(SparseAttention, TrainingFlopsGrowWithTheIndexer) {
  const Architecture model = tests::architecture("deepseek-v3.2");
  const auto per_token = [&](std::int64_t tokens) { return model_metrics(model, tokens).flops_per_token_causal; };
  const auto seen = [](double s) { return 2048 - 2048 * 2048 / (2 * s); };
  // Attention forward and backward over latents; what the indexer learns from it, and learns: dq, dk and its scores.
  const double pair = 3 * 128 * (576 + 512) * 2 + 128 * 576 * 2 + 64 * 128 * 6;
  const double expected = 61 * ((65536 - 16384) / 2 * 64.0 * 128 * 2 + (seen(65536) - seen(16384)) * pair);
  EXPECT_NEAR(per_token(65536) - per_token(16384), expected, 1e-6 * expected);
}

TEST(SparseAttention, IsWellFormedInTrainingOnTensorRanks) {
  for (const char* name : {"deepseek-v3.2", "glm-5"})
    for (const std::int64_t tensor : {1, 4})
      for (const BlockKind kind : {BlockKind::dense_layer, BlockKind::moe_layer, BlockKind::multi_token_prediction}) {
        LayerContext c = context_of(4096, false);
        c.architecture = tests::architecture(name);
        c.tensor = tensor;
        c.sequence = tensor > 1;
        const Graph block = make_block(kind, c);
        EXPECT_EQ(check(block), "") << name;
        const auto is_dgrad = [](const Operator& op) {
          return op.name == "index_q_dgrad" || op.name == "index_k_dgrad";
        };
        EXPECT_TRUE(std::ranges::none_of(block.operators, is_dgrad));  // their inputs are detached
      }
}

TEST(Layout, RefusesStoredScoresAndContextRanksOfSparseAttention) {
  const Architecture model = tests::architecture("deepseek-v3.2");
  Plan plan;
  plan.cluster.gpus = 8;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 32};
  EXPECT_FALSE(refused(plan, model));
  Plan stored = plan;
  stored.attention.kernel = "unfused";
  EXPECT_EQ(refused(stored, model), "attention.kernel");
  EXPECT_FALSE(refused(stored, tests::architecture("deepseek-v3")));
  plan.parallelism.context = 2;
  EXPECT_EQ(refused(plan, model), "parallelism.context");
}

}  // namespace
}  // namespace plumbline::model
