// Ranks that share a sequence and send each other heads, against shapes and bytes derived from the dimensions.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "tests/support/architectures.h"

namespace plumbline::model {
namespace {

// 32 heads of queries and 8 of keys, 128 columns each.
LayerContext context_of(std::int64_t ranks, std::int64_t tensor) {
  LayerContext c;
  c.architecture = tests::architecture("llama-3-8b");
  c.sequence_length = 8192;
  c.tokens = 8192 / ranks;
  c.context = ranks;
  c.context_method = ContextMethod::all_to_all;
  c.tensor = tensor;
  return c;
}

std::vector<const Operator*> exchanges_of(const Graph& layer, Phase phase) {
  std::vector<const Operator*> found;
  for (const Operator& op : layer.operators)
    if (op.kind == OperatorKind::exchange_heads && op.phase == phase && !op.recomputed) found.push_back(&op);
  return found;
}

TEST(ContextRanks, SendHeadsAndWorkOnWholeSequences) {
  const Graph layer = make_block(BlockKind::dense_layer, context_of(4, 2));
  EXPECT_EQ(check(layer), "");
  // Of 16 heads of a tensor rank each of four context ranks works on 4, and of 4 heads of keys on one.
  const auto forward = exchanges_of(layer, Phase::F), backward = exchanges_of(layer, Phase::I);
  ASSERT_EQ(forward.size(), 4u) << "queries, keys, values and outputs";
  ASSERT_EQ(backward.size(), 4u) << "and their gradients";
  const std::int64_t columns[] = {16 * 128, 4 * 128, 4 * 128, 4 * 128}, own[] = {4 * 128, 128, 128, 16 * 128};
  for (std::size_t i = 0; i < 4; ++i) {
    const Tensor &from = layer.tensor(forward[i]->reads[0]), &to = layer.tensor(forward[i]->writes[0]);
    EXPECT_EQ(from.shape[0].size, i < 3 ? 2048 : 8192);
    EXPECT_EQ(to.shape[0].size, i < 3 ? 8192 : 2048);
    EXPECT_EQ(from.shape[1].size, columns[i]);
    EXPECT_EQ(to.shape[1].size, own[i]);
    const auto& ranks = std::get<CollectiveAttributes>(forward[i]->attributes);
    EXPECT_EQ(ranks.ranks, 4);
    EXPECT_EQ(ranks.stride, 2) << "tensor ranks lie closer together";
  }
  const auto attention = std::ranges::find(layer.operators, OperatorKind::attention, &Operator::kind);
  ASSERT_NE(attention, layer.operators.end());
  const auto& attributes = std::get<AttentionAttributes>(attention->attributes);
  EXPECT_EQ(attributes.query_heads, 4);
  EXPECT_EQ(attributes.key_value_heads, 1);
  EXPECT_EQ(attributes.ring_ranks, 1);
  // The layer computes a quarter of what one rank with the whole sequence does.
  LayerContext alone = context_of(1, 2);
  const Graph whole = make_block(BlockKind::dense_layer, alone);
  const auto same = std::ranges::find(whole.operators, OperatorKind::attention, &Operator::kind);
  EXPECT_DOUBLE_EQ(4 * flops(layer, *attention, 1, true).value(), flops(whole, *same, 1, true).value());
}

// Of 8 heads of keys each of 16 ranks has a copy of one, so that 16 travel.
TEST(ContextRanks, FewerHeadsOfKeysThanRanksTravelAsCopies) {
  const Graph layer = make_block(BlockKind::dense_layer, context_of(16, 1));
  EXPECT_EQ(check(layer), "");
  const Operator& keys = *exchanges_of(layer, Phase::F)[1];
  EXPECT_EQ(layer.tensor(keys.reads[0]).elements(), 512.0 * 8 * 128);
  EXPECT_EQ(layer.tensor(keys.writes[0]).elements(), 512.0 * 16 * 128);
}

TEST(ContextRanks, HeadsHaveToDivideOverThem) {
  const Architecture model = tests::architecture("llama-3-8b");
  Plan plan;
  plan.cluster.gpus = 64;
  plan.batch = {.sequence_length = 8192, .micro_batch_size = 1, .global_batch_size = 64};
  plan.parallelism.context = 64;
  EXPECT_TRUE(make_layout(plan, model)) << "a ring needs no heads";
  plan.parallelism.context_method = "all-to-all";
  const auto refused = make_layout(plan, model);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().key, "parallelism.context");
  EXPECT_NE(refused.error().message.find("32 attention heads of a rank do not divide over 64 context ranks"),
            std::string::npos);
  plan.parallelism.context = 32;
  EXPECT_TRUE(make_layout(plan, model));
}

}  // namespace
}  // namespace plumbline::model
