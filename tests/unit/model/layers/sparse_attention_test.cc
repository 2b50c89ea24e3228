// Attention to the tokens that an indexer chooses, against counts derived from the dimensions of DeepSeek-V3.2, and of
// MiniMax-M3 for blocks of tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

LayerContext context_of(std::int64_t tokens, bool decodes, double cached = 0, const char* name = "deepseek-v3.2") {
  LayerContext c;
  c.architecture = tests::architecture(name);
  c.tokens = c.sequence_length = tokens;
  c.groups_per_token = c.architecture.experts.groups_per_token;
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

// A layer that sees what another's indexer chose has its attention and nothing of an indexer.
TEST(SparseAttention, ASharedChoiceHasNoIndexer) {
  for (const bool decodes : {false, true}) {
    const Graph shared = make_block(BlockKind::sparse_dense_layer, context_of(64, decodes, decodes ? 8191 : 0));
    EXPECT_EQ(check(shared), "");
    for (const Operator& op : shared.operators) EXPECT_EQ(op.name.find("index"), std::string::npos) << op.name;
    const Graph own = make_block(BlockKind::dense_layer, context_of(64, decodes, decodes ? 8191 : 0));
    const OperatorKind kind = decodes ? OperatorKind::cached_attention : OperatorKind::attention;
    EXPECT_EQ(flops(shared, only(shared, kind), 1, true).value(), flops(own, only(own, kind), 1, true).value());
  }
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

// 4 heads of 128 for keys and for values in each layer, and in 57 of them a key of the indexer in BF16.
TEST(SparseBlocks, KeepAKeyOfTheIndexerInLayersThatChoose) {
  const Architecture model = tests::architecture("minimax-m3");
  EXPECT_EQ(cache_bytes(model, DataType::bf16, 1, 1), 60 * 4 * 256 * 2 + 57 * 128 * 2);
  EXPECT_EQ(cache_bytes(model, DataType::fp8, 8, 1), 60 * 256 + 57 * 128 * 2);
}

// A head of the indexer for each of 4 groups of 16 queries has a key for every token; attention sees 16 blocks of 128
// tokens, of the query's own one half.
TEST(SparseBlocks, ADecodedTokenReadsAllIndexKeysAndTheChosenBlocks) {
  for (const std::int64_t tensor : {1, 4, 8})
    for (const double context : {1000.0, 65536.0}) {
      LayerContext c = context_of(16, true, context - 1, "minimax-m3");
      c.tensor = tensor;
      const Graph layer = make_block(BlockKind::sparse_moe_layer, c);
      EXPECT_EQ(check(layer), "");
      const double seen = std::min(context, 15.0 * 128 + 65);
      const double groups = tensor == 1 ? 4 : 1, heads = 64 / static_cast<double>(tensor);
      const Operator& scores = only(layer, OperatorKind::cached_index_scores);
      EXPECT_DOUBLE_EQ(flops(layer, scores, 1, true).value(), 16 * context * groups * 128 * 2);
      EXPECT_EQ(layer.tensor(scores.writes[0]).shape[1].size, groups * std::ceil(context / 128));
      EXPECT_GE(bytes_moved(layer, scores, 1).value(), 16 * context * 256);
      const Operator& attention = only(layer, OperatorKind::cached_attention);
      EXPECT_DOUBLE_EQ(flops(layer, attention, 1, true).value(), 16 * seen * heads * 256 * 2);
      EXPECT_NEAR(bytes_moved(layer, attention, 1).value(), 16 * (seen * groups * 256 + heads * 256) * 2, 1e3);
      // One GEMM projects queries, keys and values, and what the indexer reads.
      const auto is_qkv = [](const Operator& op) { return op.name == "qkv"; };
      const auto qkv = std::ranges::find_if(layer.operators, is_qkv);
      ASSERT_NE(qkv, layer.operators.end());
      EXPECT_EQ(layer.tensor(qkv->writes[0]).shape[1].size, heads * 128 + groups * 256 + groups * 128 + 128);
    }
}

// The model card has about 428 B with the vision encoder of 32 layers of 1280 and its projector, about 23 B active.
TEST(SparseBlocks, ParametersAndTrainingFlopsOfMiniMaxM3) {
  const double H = 6144, table = 200064 * H, attention = H * (8192 + 2 * 512) + 8192 * H, expert = 3 * H * 3072;
  const double index = H * (4 * 128 + 128), norms = 2 * H + 2 * 128;
  const double all = 60 * (attention + norms) + 57 * (129 * expert + 128 * H + index + 256) + 3 * 4 * expert;
  const ModelMetrics at_64k = model_metrics(tests::architecture("minimax-m3"), 65536);
  EXPECT_DOUBLE_EQ(at_64k.parameters, 2 * table + H + all);
  EXPECT_DOUBLE_EQ(at_64k.active_parameters, at_64k.parameters - table + H - 57 * 124 * expert);
  const double vision = 32 * (4 * 1280.0 * 1280 + 2 * 1280 * 5120), projector = 1280 * H + H * H + 4 * H * H + H * H;
  EXPECT_NEAR((at_64k.parameters + vision + projector) / 1e9, 427, 0.5);
  EXPECT_EQ(std::floor((at_64k.active_parameters - table) / 1e9), 23);  // without embeddings
  // Three passes of 64 heads over the tokens that a query sees. The indexer scores all of them forward, learns from
  // what attention gives the chosen ones, and has dq, dk and its scores of those.
  const double S = 65536, seen = 1985 - 1985 * 1985 / (2 * S);
  const double weights = table + 60 * attention + 57 * (5 * expert + 128 * H + index) + 3 * 4 * expert;
  const double pairs = 3 * 64 * 256 * 2 * (3 * S / 2 + 57 * seen);
  const double indexer = 57 * (S / 2 * 4 * 128 * 2 + seen * (64 * 128 * 2 + 4 * 128 * 6));
  const double expected = 6 * weights + pairs + indexer;
  EXPECT_NEAR(at_64k.flops_per_token_causal, expected, 1e-9 * expected);
}

// Each rank has the heads of its own groups, and its own tokens project all of them.
TEST(SparseBlocks, AreWellFormedInTrainingOnTensorRanks) {
  for (const std::int64_t tensor : {1, 4, 8})
    for (const bool sequence : {false, true})
      for (const BlockKind kind : {BlockKind::dense_layer, BlockKind::sparse_dense_layer, BlockKind::sparse_moe_layer,
                                   BlockKind::multi_token_prediction}) {
        LayerContext c = context_of(4096, false, 0, "minimax-m3");
        c.tensor = tensor;
        c.sequence = sequence && tensor > 1;
        const Graph block = make_block(kind, c);
        EXPECT_EQ(check(block), "");
        if (kind == BlockKind::dense_layer) continue;
        const auto scores = std::ranges::find(block.operators, OperatorKind::index_scores, &Operator::kind);
        EXPECT_EQ(block.tensor(scores->reads[0]).shape[1].size, (tensor == 1 ? 4 : 1) * 128);
        EXPECT_TRUE(std::ranges::none_of(block.operators, [](const Operator& op) { return op.name == "index_dgrad"; }));
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
