#include "model/cost/work.h"

#include <gtest/gtest.h>

#include <string>

#include "model/layers/blocks.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

using tests::deepseek_rank;
using tests::find;

class Work : public testing::Test {
 protected:
  const Graph layer_ = make_block(BlockKind::moe_layer, deepseek_rank(Precision::fp8));
  double flops_of(const std::string& name, Phase phase, bool causal = false, double row_scale = 1) const {
    return flops(layer_, find(layer_, name, phase), row_scale, causal).value();
  }
  double bytes_of(const std::string& name, Phase phase, double row_scale = 1) const {
    return bytes_moved(layer_, find(layer_, name, phase), row_scale).value();
  }
};

TEST_F(Work, MatrixProducts) {
  // [4096, 7168] x [7168, 1536]: FP8 tiles (33/32 B), FP8 blocks (1 + 4/16384 B), BF16 out.
  const double product = 2.0 * 4096 * 7168 * 1536;
  EXPECT_EQ(flops_of("q_a", Phase::F), product);
  EXPECT_EQ(bytes_of("q_a", Phase::F), 4096 * 7168 * 33 / 32.0 + 1536 * 7168 * (1 + 4 / 16384.0) + 4096 * 1536 * 2.0);
  EXPECT_EQ(flops_of("q_a_dgrad", Phase::I), product);
  EXPECT_EQ(flops_of("q_a_wgrad", Phase::W), product);
  // Both operands transposed in FP8 tiles; the FP32 gradient is read and written.
  EXPECT_EQ(bytes_of("q_a_wgrad", Phase::W), 4096 * (7168 + 1536) * 33 / 32.0 + 2 * 4.0 * 1536 * 7168);
}

TEST_F(Work, GroupedProductsFollowTheRows) {
  // 4096 tokens * 8 experts each = 32768 rows over 4 local experts; gate and up together 2 * 2048 wide.
  const double product = 2.0 * 32768 * 7168 * 4096;
  EXPECT_EQ(flops_of("experts_gate_up", Phase::F), product);
  EXPECT_EQ(flops_of("experts_gate_up_dgrad", Phase::I), product);
  EXPECT_EQ(flops_of("experts_gate_up_wgrad", Phase::W), product);
  EXPECT_DOUBLE_EQ(flops_of("experts_gate_up", Phase::F, false, 1.25), 1.25 * product);
  EXPECT_DOUBLE_EQ(flops_of("experts_gate_up_wgrad", Phase::W, false, 1.25), 1.25 * product);
  const ProductShape shape = product_shape(layer_, find(layer_, "experts_gate_up_wgrad", Phase::W), 1);
  EXPECT_EQ(shape.groups, 4);
  EXPECT_EQ(shape.m * shape.n, 7168.0 * 4096);
  EXPECT_EQ(shape.k, 8192);
}

TEST_F(Work, Attention) {
  // Scores and values: 2 * 4096 * 4096 * 128 heads * (192 + 128) = 1374.4 GFLOP; half of it when causal.
  // Backward: five products, three of them as deep as the keys.
  const double pairs = 4096.0 * 4096 * 128;
  EXPECT_EQ(flops_of("attention", Phase::F), 2 * pairs * 320);
  EXPECT_EQ(flops_of("attention", Phase::F, true), pairs * 320);
  EXPECT_EQ(flops_of("attention_grad", Phase::I), 2 * pairs * (3 * 192 + 2 * 128));
}

TEST_F(Work, MemoryBoundOperators) {
  EXPECT_EQ(flops_of("attention_norm", Phase::F), 0);
  EXPECT_EQ(bytes_of("attention_norm", Phase::F), 2 * 2.0 * 4096 * 7168 + 2 * 7168);
  // Reads gate|up in BF16 and the row weights, writes FP8 tiles.
  const double rows = 32768 * (4096 * 2.0 + 4 + 2048 * 33 / 32.0);
  EXPECT_EQ(bytes_of("experts_swiglu", Phase::F), rows);
  EXPECT_DOUBLE_EQ(bytes_of("experts_swiglu", Phase::F, 1.25), 1.25 * rows);
}

TEST_F(Work, GradientsFromOtherRanksAreTurnedOncePerToken) {
  // 4096 tokens reach 7.5 ranks each: as many arrive, 30720 of 7168 FP8 with scales. Turned once, then gathered by
  // the map into the columns of 32768 rows.
  const double column = 7168 * 33 / 32.0;
  EXPECT_EQ(bytes_of("cast_transpose_d_received", Phase::I), 2 * 30720 * column);
  EXPECT_EQ(bytes_of("gather_expert_gradients", Phase::W), (30720 + 32768) * column + 4.0 * 32768);
}

TEST_F(Work, AnEmbeddingTouchesItsRowsOnly) {
  const Graph embedding = make_block(BlockKind::embedding, deepseek_rank(Precision::fp8));
  EXPECT_EQ(bytes_moved(embedding, find(embedding, "embedding"), 1).value(), 2 * 2.0 * 4096 * 7168);
}

}  // namespace
}  // namespace plumbline::model
