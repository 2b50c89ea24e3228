// Attention to compressed entries, one vector as key and value of all heads, and several residual streams, against
// counts derived from the dimensions of DeepSeek-V4.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "model/architecture/metrics.h"
#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "model/layers/key_value_cache.h"
#include "model/layers/recurrence.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "tests/support/architectures.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

using enum BlockKind;
using tests::decoding;
using tests::only;
using tests::training;

TEST(CompressedAttention, LayersAreOfTheKindsThatTheFileStates) {
  const Architecture flash = tests::architecture("deepseek-v4-flash"), pro = tests::architecture("deepseek-v4-pro");
  EXPECT_EQ(layer_kind(flash, 0), windowed_moe_layer);
  EXPECT_EQ(layer_kind(flash, 2), sparse_compressed_moe_layer);
  EXPECT_EQ(layer_kind(flash, 3), compressed_moe_layer);
  EXPECT_EQ(layer_kind(pro, 1), compressed_moe_layer);
  EXPECT_EQ(layer_kind(pro, 60), sparse_compressed_moe_layer);
  EXPECT_EQ(layer_of(multi_token_prediction, pro), (LayerKind{Mixer::windowed_attention, FeedForward::experts}));
}

// 2 window layers, 21 with chosen keys of 4 tokens and 20 with all keys of 128. A key has 512 columns in 16 bits, that
// of the indexer 128 in 8 bits and a scale. Beyond the window of 128 tokens it no longer grows.
TEST(CompressedAttention, KeepsAWindowAndCompressedEntries) {
  const Architecture flash = tests::architecture("deepseek-v4-flash");
  const double key = 512 * 2, index = 128 + 4;
  for (const double tokens : {1.0, 100.0, 4096.0, 1048576.0}) {
    const double entries = 21 * (key + index) * tokens / 4 + 20 * key * tokens / 128;
    EXPECT_DOUBLE_EQ(cache_bytes(flash, DataType::bf16, 8, tokens), 43 * key * std::min(tokens, 128.0) + entries);
  }
  // Projections in FP32 of 8 tokens, twice 1024 columns and twice 256 of the indexer; and of 128, twice 512.
  EXPECT_DOUBLE_EQ(request_state_bytes(flash), 4 * (21 * 8 * 2 * (1024 + 256) + 20 * 128 * 2 * 512.0));
}

// Each query sees the window, and of c/4 entries the 512 chosen ones, or all c/128.
TEST(CompressedAttention, ADecodedTokenReadsTheWindowAndTheEntriesThatItSees) {
  for (const double context : {1024.0, 65536.0}) {
    const struct {
      BlockKind kind;
      double entries;
    } layers[] = {{windowed_moe_layer, 0},
                  {sparse_compressed_moe_layer, std::min(context / 4, 512.0)},
                  {compressed_moe_layer, context / 128}};
    for (const auto& [kind, entries] : layers) {
      const Graph layer = make_block(kind, decoding("deepseek-v4-flash", 16, 1, context - 1));
      EXPECT_EQ(check(layer), "");
      const Operator& attention =
          only(layer, entries > 0 ? OperatorKind::cached_compressed_attention : OperatorKind::cached_attention);
      EXPECT_DOUBLE_EQ(flops(layer, attention, 1, true).value(), 16 * (128 + entries) * 64 * (512 + 512) * 2);
      const double keys = 16 * (128 + entries) * 512 * 2, rows = 2 * 16 * 64 * 512 * 2.0, chosen = 16 * 512 * 4.0;
      EXPECT_NEAR(bytes_moved(layer, attention, 1).value(), keys + rows,
                  100 + (kind == sparse_compressed_moe_layer ? chosen : 0));
    }
    const Graph sparse = make_block(sparse_compressed_moe_layer, decoding("deepseek-v4-flash", 16, 1, context - 1));
    EXPECT_DOUBLE_EQ(flops(sparse, only(sparse, OperatorKind::cached_index_scores), 1, true).value(),
                     16 * context / 4 * 64 * 128 * 2);
  }
}

// A decoded token writes its projections and reads as many: those of its block when it ends.
TEST(CompressedAttention, ADecodedTokenMovesItsProjectionsTwice) {
  const Graph layer = make_block(compressed_moe_layer, decoding("deepseek-v4-flash", 16, 1, 4095));
  const Operator& op = only(layer, OperatorKind::compress_tokens);
  const double state = 16 * 1024 * 4, projected = 16 * 1024 * 2, bias = 128 * 512 * 2, made = 512 * 2;
  EXPECT_DOUBLE_EQ(bytes_moved(layer, op, 1).value(), 2 * state + projected + bias + made);
}

// Products with weights: 6 FLOPs a token for each that it uses. Attention: three passes of 64 heads of 512 + 512
// columns over the keys that a token sees on average; the indexer scores entries forward and learns from chosen ones.
TEST(CompressedAttention, TrainingFlopsOfDeepSeekV4Flash) {
  const double H = 4096, heads = 64, d = 512, q = 1024, o = 1024, S = 8192;
  const double projections = H * q + q * heads * d + H * d + heads * d * o + 8 * o * H;
  const double streams = 2 * 24 * 4 * H, experts = 256 * H + 7 * 3 * H * 2048;
  const double sparse = 2 * H * 2 * d + 2 * H * 2 * 128 + q * 64 * 128 + 64 * H, all = 2 * H * d;
  const double weights = 43 * (projections + streams + experts) + 21 * sparse + 20 * all + 4 * 4 * H + 129280 * H;
  const double window = 128 - 128 * 128 / (2 * S), chosen = (2048 - 2048 * 2048 / (2 * S)) / 4;
  const double pair = 3 * heads * (d + d) * 2;
  const double indexer = S / 2 / 4 * 64 * 128 * 2 + chosen * (heads * d * 2 + 64 * 128 * 6);
  const double attention = pair * (43 * window + 21 * chosen + 20 * S / 2 / 128) + 21 * indexer;
  const double expected = 6 * weights + attention;
  EXPECT_NEAR(model_metrics(tests::architecture("deepseek-v4-flash"), 8192).flops_per_token_causal, expected,
              1e-9 * expected);
}

// Four copies of the stream: the first norm reads one column block of what the layer gets and returns.
TEST(ResidualStreams, LayersPassAllCopiesOn) {
  const LayerContext c = training("deepseek-v4-flash", 4096);
  for (const BlockKind kind : {windowed_moe_layer, compressed_moe_layer, sparse_compressed_moe_layer}) {
    const Graph layer = make_block(kind, c);
    EXPECT_EQ(check(layer), "");
    EXPECT_EQ(layer.tensor(layer.input).shape[1].size, 4 * 4096);
    EXPECT_EQ(layer.tensor(layer.output).shape[1].size, 4 * 4096);
    EXPECT_EQ(std::ranges::count(layer.operators, OperatorKind::add_to_streams, &Operator::kind), 2);
    // Streams in 16 bits are read once for their sum, and read and written once as it is added; weights are 20 columns.
    const Operator& adds = only(layer, OperatorKind::add_to_streams);
    EXPECT_DOUBLE_EQ(bytes_moved(layer, adds, 1).value(), 4096.0 * ((1 + 4 + 4) * 4096 * 2 + 20 * 4));
  }
  for (const BlockKind kind : {embedding, multi_token_prediction, head}) EXPECT_EQ(check(make_block(kind, c)), "");
}

TEST(CompressedAttention, IsWellFormedOnTensorRanks) {
  for (const BlockKind kind :
       {embedding, windowed_moe_layer, compressed_moe_layer, sparse_compressed_moe_layer, multi_token_prediction, head})
    for (const bool sequence : {false, true}) {
      LayerContext c = training("deepseek-v4-pro", 4096);
      c.tensor = 8;
      c.sequence = sequence;
      EXPECT_EQ(check(make_block(kind, c)), "");
      LayerContext prompt = c;
      prompt.inference = {.kind = InferencePass::Kind::prefill, .requests = 1, .new_tokens = 4096};
      EXPECT_EQ(check(make_block(kind, prompt)), "");
    }
}

TEST(Layout, RefusesTensorRanksThatDoNotDivideGroupsOfAttentionsOutput) {
  const Architecture flash = tests::architecture("deepseek-v4-flash");
  Plan plan;
  plan.cluster.gpus = 64;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 64};
  plan.parallelism.tensor = 8;
  plan.parallelism.sequence = true;
  EXPECT_TRUE(make_layout(plan, flash));
  plan.parallelism.tensor = 16;
  const auto refused = make_layout(plan, flash);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().key, "parallelism.tensor");
}

}  // namespace
}  // namespace plumbline::model
