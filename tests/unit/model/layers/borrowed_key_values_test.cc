// Layers that attend to keys and values of another, and inputs of layers, against counts derived from the dimensions of
// Gemma 4 E2B: 35 layers of 1536 columns, of which each fifth attends to all tokens, with 8 heads and 1 key and value
// of 512 columns, else of 256. The last 20 borrow and have MLPs of 12288 columns, the others of 6144. Each has an input
// of 256 columns.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "model/architecture/metrics.h"
#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "model/layers/key_value_cache.h"
#include "model/plan/instance.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "tests/support/architectures.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

using tests::only;

LayerContext context_of(std::int64_t tokens) {
  LayerContext c;
  c.architecture = tests::architecture("gemma-4-e2b");
  c.tokens = c.sequence_length = tokens;
  return c;
}

bool has_operator(const Graph& graph, const std::string& name) {
  return std::ranges::any_of(graph.operators, [&](const Operator& op) { return op.name == name; });
}

double elements_of_parameters(const Graph& graph) {
  double sum = 0;
  for (const Tensor& tensor : graph.tensors)
    if (tensor.role == Role::parameter) sum += tensor.elements();
  return sum;
}

TEST(BorrowedKeyValues, AreThoseOfTheLastLayersThatHaveTheirOwn) {
  const Architecture model = tests::architecture("gemma-4-e2b");
  EXPECT_EQ(layer_kind(model, 13), BlockKind::windowed_dense_layer);
  EXPECT_EQ(layer_kind(model, 14), BlockKind::dense_layer);
  EXPECT_EQ(layer_kind(model, 15), BlockKind::windowed_borrowing_dense_layer);
  EXPECT_EQ(layer_kind(model, 34), BlockKind::borrowing_dense_layer);
  // 12 layers with the window and 3 without it keep a key and a value of one head.
  EXPECT_EQ(cache_bytes(model, DataType::bf16, 1, 1), 12 * 2 * 256 * 2 + 3 * 2 * 512 * 2);
  EXPECT_EQ(cache_bytes(model, DataType::bf16, 1, 4096), 12 * 2 * 256 * 2 * 512 + 3 * 2 * 512 * 2 * 4096);
}

// A borrowing layer projects queries alone: H (8 d) twice and d of its norm, next to 5 norms of the stream.
TEST(BorrowedKeyValues, LayersThatBorrowProjectQueriesAlone) {
  const double H = 1536, rest = 5 * H + 2 * H * 256;
  EXPECT_EQ(elements_of_parameters(make_block(BlockKind::borrowing_dense_layer, context_of(64))),
            2 * H * 8 * 512 + 512 + 3 * H * 12288 + rest);
  EXPECT_EQ(elements_of_parameters(make_block(BlockKind::windowed_borrowing_dense_layer, context_of(64))),
            2 * H * 8 * 256 + 256 + 3 * H * 12288 + rest);
  EXPECT_EQ(elements_of_parameters(make_block(BlockKind::dense_layer, context_of(64))),
            2 * H * 8 * 512 + 2 * H * 512 + 2 * 512 + 3 * H * 6144 + rest);
}

// Of 20 layers and the one that has the keys, 21 gradients become one in 20 sums, of which each borrowing layer has one
// for keys and one for values. Keys are rotated and normalised once.
TEST(BorrowedKeyValues, GradientsOfAllReadersAreAddedUp) {
  const Graph layer = make_block(BlockKind::borrowing_dense_layer, context_of(64));
  EXPECT_EQ(check(layer), "");
  for (const char* name : {"d_borrowed_key", "d_borrowed_value"}) {
    const auto sum = std::ranges::find(layer.operators, name, &Operator::name);
    ASSERT_NE(sum, layer.operators.end()) << name;
    EXPECT_EQ(sum->phase, Phase::I);
    EXPECT_EQ(bytes_moved(layer, *sum, 1).value(), 3 * 64 * 512 * 2);
  }
  EXPECT_FALSE(has_operator(layer, "rotary_key"));
  EXPECT_FALSE(has_operator(layer, "key_norm"));
  EXPECT_FALSE(has_operator(layer, "split_qkv"));
  EXPECT_FALSE(has_operator(make_block(BlockKind::dense_layer, context_of(64)), "d_borrowed_key"));
}

// Each borrowing layer reads the cache that another appends to.
TEST(BorrowedKeyValues, DecodingReadsThemInEachLayer) {
  LayerContext c = context_of(16);
  c.inference = {.kind = InferencePass::Kind::decode, .requests = 16, .new_tokens = 1, .cached_tokens = 8191};
  const Graph all = make_block(BlockKind::borrowing_dense_layer, c);
  EXPECT_EQ(check(all), "");
  EXPECT_FALSE(has_operator(all, "append_cache"));
  const double own = bytes_moved(make_block(BlockKind::dense_layer, c),
                                 only(make_block(BlockKind::dense_layer, c), OperatorKind::cached_attention), 1)
                         .value();
  const Operator& attention = only(all, OperatorKind::cached_attention);
  EXPECT_DOUBLE_EQ(bytes_moved(all, attention, 1).value(), own);
  EXPECT_DOUBLE_EQ(flops(all, attention, 1, true).value(), 16 * 8192 * 8 * (512 + 512) * 2.0);
  const Graph windowed = make_block(BlockKind::windowed_borrowing_dense_layer, c);
  EXPECT_DOUBLE_EQ(flops(windowed, only(windowed, OperatorKind::cached_attention), 1, true).value(),
                   16 * 512 * 8 * (256 + 256) * 2.0);
}

// A token multiplies 2 FLOPs of each matrix forward and 4 backward, and in three passes 4 d of 8 heads for each of the
// tokens before it, 256 in the mean of a sequence of 512.
TEST(BorrowedKeyValues, TrainingFlopsOfATokenOfGemma4) {
  const double H = 1536, P = 256;
  double matrices = 262144 * H + H * 35 * P, pairs = 0;
  for (int layer = 0; layer < 35; ++layer) {
    const bool borrows = layer >= 15;
    const double d = (layer + 1) % 5 == 0 ? 512 : 256;
    matrices += 2 * H * 8 * d + (borrows ? 0 : 2 * H * d) + 3 * H * (borrows ? 12288 : 6144) + 2 * H * P;
    pairs += 3 * 4 * d * 8;
  }
  const double expected = 6 * matrices + pairs * 256;
  EXPECT_NEAR(model_metrics(tests::architecture("gemma-4-e2b"), 512).flops_per_token_causal, expected, 1e-9 * expected);
}

// The block of the embedding makes the inputs of all layers of its table and of one projection.
TEST(LayerInputs, ComeFromOneTableAndOneProjection) {
  const LayerContext c = context_of(64);
  const Graph block = make_block(BlockKind::embedding, c);
  EXPECT_EQ(check(block), "");
  const double H = 1536, P = 256;
  EXPECT_EQ(elements_of_parameters(block), 262144 * (H + 35 * P) + H * 35 * P + P);
  const auto projection = std::ranges::find(block.operators, "layer_input_projection", &Operator::name);
  ASSERT_NE(projection, block.operators.end());
  EXPECT_EQ(flops(block, *projection, 1, true).value(), 2 * 64 * H * 35 * P);
  const auto gradient = std::ranges::find(block.operators, "layer_embedding_grad", &Operator::name);
  ASSERT_NE(gradient, block.operators.end());
  EXPECT_EQ(gradient->phase, Phase::W);
  EXPECT_EQ(model_metrics(c.architecture, 512).embedding_parameters, 262144 * (H + 35 * P));
}

// Each tensor rank has its share of the rows of both tables, and projects all columns of its own tokens.
TEST(LayerInputs, AreMadeOnTensorRanks) {
  LayerContext c = context_of(64);
  c.tensor = 4;
  for (const bool sequence : {false, true}) {
    c.sequence = sequence;
    for (const BlockKind kind : {BlockKind::embedding, BlockKind::dense_layer, BlockKind::borrowing_dense_layer}) {
      const Graph block = make_block(kind, c);
      EXPECT_EQ(check(block), "");
      const auto projection = std::ranges::find(block.operators, "layer_input_projection", &Operator::name);
      ASSERT_NE(projection, block.operators.end());
      EXPECT_EQ(block.tensor(projection->writes[0]).shape[0].size, sequence ? 16 : 64);
    }
    const Graph block = make_block(BlockKind::embedding, c);
    const auto table = std::ranges::find(block.tensors, "layer_embedding", &Tensor::name);
    ASSERT_NE(table, block.tensors.end());
    EXPECT_EQ(table->shape[0].size, 262144 / 4);
  }
}

TEST(Layout, RefusesStagesOfLayersThatReadMoreThanTheStream) {
  const Architecture model = tests::architecture("gemma-4-e2b");
  Plan plan;
  plan.cluster.gpus = 8;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 32};
  EXPECT_TRUE(make_layout(plan, model));
  EXPECT_TRUE(make_instance(plan, model, PoolKind::decode));
  plan.parallelism.pipeline = 5;
  plan.cluster.gpus = 5;
  EXPECT_EQ(make_layout(plan, model).error().key, "parallelism.pipeline");
  EXPECT_EQ(make_instance(plan, model, PoolKind::decode).error().key, "parallelism.pipeline");
}

}  // namespace
}  // namespace plumbline::model
