#include "model/cost/work.h"

#include <gtest/gtest.h>

#include <string>

#include "model/layers/blocks.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

using tests::deepseek_rank;
using tests::find;

class WorkOfDeepSeek : public testing::Test {
 protected:
  const Graph layer_ = make_block(BlockKind::moe_layer, deepseek_rank(Precision::fp8));
  double flops_of(const std::string& name, Phase phase, bool causal = false, double row_scale = 1) const {
    return flops(layer_, find(layer_, name, phase), row_scale, causal).value();
  }
  double bytes_of(const std::string& name, Phase phase, double row_scale = 1) const {
    return bytes_moved(layer_, find(layer_, name, phase), row_scale).value();
  }
};

TEST_F(WorkOfDeepSeek, Gemms) {
  // [4096, 7168] x [7168, 1536]: FP8 tiles (33/32 B), FP8 blocks (1 + 4/16384 B), BF16 out.
  const double gemm = 2.0 * 4096 * 7168 * 1536;
  EXPECT_EQ(flops_of("q_a", Phase::F), gemm);
  EXPECT_EQ(bytes_of("q_a", Phase::F), 4096 * 7168 * 33 / 32.0 + 1536 * 7168 * (1 + 4 / 16384.0) + 4096 * 1536 * 2.0);
  EXPECT_EQ(flops_of("q_a_dgrad", Phase::I), gemm);
  EXPECT_EQ(flops_of("q_a_wgrad", Phase::W), gemm);
  // Both operands transposed in FP8 tiles; the FP32 gradient is read and written.
  EXPECT_EQ(bytes_of("q_a_wgrad", Phase::W), 4096 * (7168 + 1536) * 33 / 32.0 + 2 * 4.0 * 1536 * 7168);
}

// 4096 tokens in 8 chunks are 8 GEMMs of 512 rows, each of which reads and writes the gradient of the head. The head
// that computes its loss runs its GEMM again, and its loss has no kernel.
TEST(WorkOfAHead, ChunksAreGemmsOfTheirOwn) {
  LayerContext c = deepseek_rank(Precision::bf16);
  const Graph whole = make_block(BlockKind::head, c);
  c.loss_chunks = 8;
  const Graph head = make_block(BlockKind::head, c);
  const auto vocabulary = static_cast<double>(c.architecture.vocabulary);
  const GemmShape forward = gemm_shape(head, find(head, "output", Phase::F), 1);
  EXPECT_EQ(forward.groups, 8);
  EXPECT_EQ(forward.m, 512);
  const Operator& gradient = find(head, "output_wgrad", Phase::W);
  EXPECT_EQ(gemm_shape(head, gradient, 1).k, 512);
  EXPECT_EQ(flops(head, gradient, 1, true), Flops(2.0 * 4096 * 7168 * vocabulary));
  EXPECT_EQ((bytes_moved(head, gradient, 1) - bytes_moved(whole, find(whole, "output_wgrad", Phase::W), 1)).value(),
            7 * 2 * 4.0 * 7168 * vocabulary);
  c.loss_chunks = 1;
  c.loss_in_head = true;
  const Graph fused = make_block(BlockKind::head, c);
  EXPECT_TRUE(find(fused, "output", Phase::I).recomputed);
  EXPECT_TRUE(find(fused, "cross_entropy", Phase::F).fused);
  EXPECT_TRUE(find(fused, "cross_entropy_grad", Phase::I).fused);
}

TEST_F(WorkOfDeepSeek, GroupedGemmsFollowTheRows) {
  EXPECT_TRUE(varies_with_rows(layer_, find(layer_, "experts_gate_up", Phase::F)));
  EXPECT_FALSE(varies_with_rows(layer_, find(layer_, "q_a", Phase::F)));
  // 4096 tokens * 8 experts each = 32768 rows over 4 local experts; gate and up together 2 * 2048 wide.
  const double gemm = 2.0 * 32768 * 7168 * 4096;
  EXPECT_EQ(flops_of("experts_gate_up", Phase::F), gemm);
  EXPECT_EQ(flops_of("experts_gate_up_dgrad", Phase::I), gemm);
  EXPECT_EQ(flops_of("experts_gate_up_wgrad", Phase::W), gemm);
  EXPECT_DOUBLE_EQ(flops_of("experts_gate_up", Phase::F, false, 1.25), 1.25 * gemm);
  EXPECT_DOUBLE_EQ(flops_of("experts_gate_up_wgrad", Phase::W, false, 1.25), 1.25 * gemm);
  const GemmShape shape = gemm_shape(layer_, find(layer_, "experts_gate_up_wgrad", Phase::W), 1);
  EXPECT_EQ(shape.groups, 4);
  EXPECT_EQ(shape.m * shape.n, 7168.0 * 4096);
  EXPECT_EQ(shape.k, 8192);
}

TEST_F(WorkOfDeepSeek, Attention) {
  // Scores and values: 2 * 4096 * 4096 * 128 heads * (192 + 128) = 1374.4 GFLOP; half of it when causal. The backward
  // has five GEMMs, three of them as deep as the keys.
  const double pairs = 4096.0 * 4096 * 128;
  EXPECT_EQ(flops_of("attention", Phase::F), 2 * pairs * 320);
  EXPECT_EQ(flops_of("attention", Phase::F, true), pairs * 320);
  EXPECT_EQ(flops_of("attention_grad", Phase::I), 2 * pairs * (3 * 192 + 2 * 128));
}

TEST_F(WorkOfDeepSeek, MemoryBoundOperators) {
  EXPECT_EQ(flops_of("attention_norm", Phase::F), 0);
  EXPECT_EQ(bytes_of("attention_norm", Phase::F), 2 * 2.0 * 4096 * 7168 + 2 * 7168);
  // Reads gate|up in BF16 and the row weights, writes FP8 tiles.
  const double rows = 32768 * (4096 * 2.0 + 4 + 2048 * 33 / 32.0);
  EXPECT_EQ(bytes_of("experts_swiglu", Phase::F), rows);
  EXPECT_DOUBLE_EQ(bytes_of("experts_swiglu", Phase::F, 1.25), 1.25 * rows);
}

TEST_F(WorkOfDeepSeek, GradientsFromOtherRanksAreTransposedOncePerToken) {
  // 4096 tokens reach 7.5 ranks each: as many arrive, 30720 of 7168 FP8 with scales. They are transposed once, then
  // gathered by the map into the columns of 32768 rows.
  const double column = 7168 * 33 / 32.0;
  EXPECT_EQ(bytes_of("cast_transpose_d_received", Phase::I), 2 * 30720 * column);
  EXPECT_EQ(bytes_of("gather_expert_gradients", Phase::W), (30720 + 32768) * column + 4.0 * 32768);
}

TEST_F(WorkOfDeepSeek, AnEmbeddingTouchesItsRowsOnly) {
  const Graph embedding = make_block(BlockKind::embedding, deepseek_rank(Precision::fp8));
  EXPECT_EQ(bytes_moved(embedding, find(embedding, "embedding"), 1).value(), 2 * 2.0 * 4096 * 7168);
}

// 4096 tokens in sequences of 2048, 8 query heads of 16 and 2 key-value heads.
LayerContext gpt_rank(bool fused) {
  LayerContext c;
  Architecture& a = c.architecture;
  a = {.hidden_size = 128,
       .heads = 8,
       .key_value_heads = 2,
       .head_dim = 16,
       .intermediate_size = 512,
       .vocabulary = 1000};
  a.norm = NormKind::layer;
  a.norm_bias = true;
  a.mlp = MlpKind::gelu;
  a.positions = PositionKind::learned;
  a.position_table = 5000;
  a.biases = {.query_key_value = true, .attention_output = true, .mlp = true};
  a.dropout = {.embedding = 0.1, .attention = 0.1, .residual = 0.1};
  a.window = {.tokens = 512};
  c.tokens = 4096;
  c.sequence_length = 2048;
  c.attention = fused ? AttentionKernel::fused : AttentionKernel::unfused;
  return c;
}

TEST(Work, AttentionInAWindow) {
  const Graph layer = make_block(BlockKind::windowed_dense_layer, gpt_rank(true));
  const Operator& attention = find(layer, "attention");
  // Each query has 512 keys. In causal attention the first 512 of 2048 have half of them on average: 512 - 512 / 8 =
  // 448.
  EXPECT_EQ(flops(layer, attention, 1, false).value(), 4096.0 * 8 * 512 * 2 * (16 + 16));
  EXPECT_EQ(flops(layer, attention, 1, true).value(), 4096.0 * 8 * 448 * 2 * (16 + 16));
  const Graph all = make_block(BlockKind::dense_layer, gpt_rank(true));
  EXPECT_EQ(flops(all, find(all, "attention"), 1, true).value(), 4096.0 * 8 * 1024 * 2 * (16 + 16));
}

TEST(Work, AttentionOverStoredScoresHasNoMask) {
  const Graph layer = make_block(BlockKind::windowed_dense_layer, gpt_rank(false));
  const double gemm = 4096.0 * 8 * 2048 * 2 * 16;  // every query, head and key
  for (const auto& [name, phase] : {std::pair{"scores", Phase::F},
                                    {"weigh_values", Phase::F},
                                    {"scores_grad_query", Phase::I},
                                    {"scores_grad_key", Phase::I},
                                    {"weigh_values_grad_weights", Phase::I},
                                    {"weigh_values_grad_values", Phase::I}})
    EXPECT_EQ(flops(layer, find(layer, name, phase), 1, true).value(), gemm) << name;
  // Two sequences of eight heads; of the scores 2048 x 2048 each, of the values 2048 x 16.
  const GemmShape scores = gemm_shape(layer, find(layer, "scores"), 1);
  EXPECT_EQ(scores.groups, 16);
  EXPECT_EQ(scores.m * scores.n, 2048.0 * 2048);
  EXPECT_EQ(scores.k, 16);
  EXPECT_EQ(gemm_shape(layer, find(layer, "weigh_values"), 1).k, 2048);
  // Scores in, probabilities out, BF16; dropout adds a mask of one byte.
  const double entries = 4096.0 * 8 * 2048;
  EXPECT_EQ(bytes_moved(layer, find(layer, "softmax"), 1).value(), 4 * entries);
  EXPECT_EQ(bytes_moved(layer, find(layer, "attention_dropout"), 1).value(), 5 * entries);
}

TEST(Work, BiasesAndPositions) {
  const Graph layer = make_block(BlockKind::dense_layer, gpt_rank(true));
  // [4096, 128] x [128, 512]; the bias is one more row of 512 that the GEMM reads.
  EXPECT_EQ(flops(layer, find(layer, "up"), 1, false).value(), 2.0 * 4096 * 128 * 512);
  EXPECT_EQ(bytes_moved(layer, find(layer, "up"), 1).value(), 2.0 * (4096 * (128 + 512) + 128 * 512 + 512));
  // dy in BF16, the FP32 gradient read and written.
  EXPECT_EQ(bytes_moved(layer, find(layer, "up_bias_grad", Phase::I), 1).value(), 2.0 * 4096 * 512 + 2 * 4.0 * 512);
  // One sequence's 2048 rows of 5000 positions are used.
  const Graph embedding = make_block(BlockKind::embedding, gpt_rank(true));
  EXPECT_EQ(bytes_moved(embedding, find(embedding, "add_positions"), 1).value(), 2.0 * (2 * 4096 + 2048) * 128);
  EXPECT_EQ(bytes_moved(embedding, find(embedding, "add_positions_grad", Phase::W), 1).value(),
            (2.0 * 4096 + 2 * 4.0 * 2048) * 128);
}

TEST(Work, NoDropoutEmitsNothing) {
  LayerContext context = gpt_rank(false);
  context.architecture.dropout = {};
  for (const BlockKind kind : {BlockKind::embedding, BlockKind::dense_layer})
    for (const Operator& op : make_block(kind, context).operators) {
      EXPECT_NE(op.kind, OperatorKind::dropout);
      EXPECT_NE(op.kind, OperatorKind::dropout_grad);
    }
}

}  // namespace
}  // namespace plumbline::model
