// Blocks that several layers share, against counts derived from the dimensions of Zamba2-7B: 81 layers of Mamba-2 with
// 3584 columns, of which 13 have one of two blocks with 32 heads of 224 columns and an MLP of 14336, and adapters of
// rank 128.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "model/architecture/metrics.h"
#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "model/layers/key_value_cache.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "tests/support/architectures.h"
#include "tests/support/config_files.h"

namespace plumbline::model {
namespace {

constexpr double hidden = 3584, inner = 2 * hidden, mlp = 14336, rank = 128;
// Queries, keys and values of the stream and the embedding side by side, what is projected back, and the MLP.
constexpr double block_matrices = 3 * (2 * hidden) * (2 * hidden) + 2 * hidden * hidden + 3 * hidden * mlp;
// Of each layer that has a block: adapters of gate and up, and the projection of the result.
constexpr double own_matrices = rank * (hidden + 2 * mlp) + hidden * hidden;
constexpr double mamba_matrices = hidden * (2 * inner + 2 * 2 * 64 + 112) + inner * hidden;

LayerContext context_of(std::int64_t tokens) {
  LayerContext c;
  c.architecture = tests::architecture("zamba2-7b");
  c.tokens = c.sequence_length = tokens;
  return c;
}

double parameters_of(const Graph& graph, bool shared) {
  double sum = 0;
  for (const Tensor& tensor : graph.tensors)
    if (tensor.role == Role::parameter && tensor.shared == shared) sum += tensor.elements();
  return sum;
}

TEST(SharedBlocks, ALayerThatHasOneAgainOwnsItsAdaptersAndProjection) {
  const Graph first = make_block(BlockKind::shared_block_layer, context_of(64));
  const Graph again = make_block(BlockKind::shared_block_again_layer, context_of(64));
  const Graph plain = make_block(BlockKind::recurrent_layer, context_of(64));
  for (const Graph* graph : {&first, &again, &plain}) EXPECT_EQ(check(*graph), "");
  const double block = block_matrices + 3 * hidden;  // with norms of what it reads, and before the MLP
  EXPECT_EQ(parameters_of(first, false), parameters_of(plain, false) + own_matrices + block);
  EXPECT_EQ(parameters_of(first, true), 0);
  EXPECT_EQ(parameters_of(again, false), parameters_of(plain, false) + own_matrices);
  EXPECT_EQ(parameters_of(again, true), block);
}

// A reference model trains nothing of its own.
TEST(SharedBlocks, AdaptersOfAReferenceAreFrozen) {
  LayerContext c = context_of(64);
  for (const bool reference : {false, true}) {
    c.reference = reference;
    const Graph block = make_block(BlockKind::shared_block_layer, c);
    for (const Tensor& tensor : block.tensors) {
      if (tensor.role == Role::parameter && tensor.name.find("adapter") != std::string::npos) {
        EXPECT_EQ(tensor.frozen, reference) << tensor.name;
      }
    }
  }
}

// Pipeline stages are refused too, but without them the adapters still would be.
TEST(SharedBlocks, AdaptersOfTheirOwnRefuseLoraWhateverTheDegrees) {
  const Architecture zamba = tests::architecture("zamba2-7b");
  Plan plan;
  plan.cluster.gpus = 8;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 8};
  for (const std::int64_t stages : {1, 2}) {
    plan.parallelism.pipeline = stages;
    plan.training.method = "lora";
    EXPECT_EQ(make_layout(plan, zamba).error().key, "training.method");
    plan.training.method = "full";
    const auto trained = make_layout(plan, zamba);
    EXPECT_EQ(trained ? "" : trained.error().key, stages == 1 ? "" : "parallelism.pipeline");
  }
}

// The index of Zyphra/Zamba2-1.2B has 1,215,064,704 parameters, whose six hybrid layers have adapters of attention too.
TEST(SharedBlocks, ParametersOfZamba2) {
  std::string names;
  for (int layer = 0; layer < 38; ++layer)
    names += std::string(layer > 0 ? ", " : "") + (layer % 6 == 5 ? R"("hybrid")" : R"("mamba")");
  const Architecture small = tests::made("zamba2", R"("vocab_size": 32000, "hidden_size": 2048, "mamba_d_state": 128,
      "num_hidden_layers": 38, "num_attention_heads": 32, "n_mamba_heads": 64, "use_shared_attention_adapter": true,
      "layers_block_type": [)" + names + "]");
  EXPECT_EQ(model_metrics(small, 64).parameters, 1215064704);
  EXPECT_EQ(layer_kind(small, 5), BlockKind::shared_block_layer);
  EXPECT_EQ(layer_kind(small, 11), BlockKind::shared_block_again_layer);
  EXPECT_EQ(cache_bytes(small, DataType::bf16, 1, 1), 6 * 2 * 32 * 128 * 2);
  EXPECT_EQ(tests::minimal("zamba2", R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "vocab_size": 32, "layers_block_type": ["mamba"])")
                .error()
                .key,
            "layers_block_type");
}

// Each use of a block costs as the first one: 13 times its matrices and its attention, 64 tokens before a token in the
// mean of 128. What a recurrence scans is in no matrix.
TEST(SharedBlocks, EveryUseHasItsFlops) {
  LayerContext c = context_of(128);
  const auto flops_of = [&](BlockKind kind) {
    const Graph graph = make_block(kind, c);
    double sum = 0;
    for (const Operator& op : graph.operators)
      if (op.phase == Phase::F) sum += flops(graph, op, 1, true).value();
    return sum / 128;
  };
  const double block = 2 * (block_matrices + own_matrices) + 64 * 32 * 2 * (224 + 224.0);
  EXPECT_NEAR(flops_of(BlockKind::shared_block_layer) - flops_of(BlockKind::recurrent_layer), block, 1e-9 * block);
  EXPECT_EQ(flops_of(BlockKind::shared_block_layer), flops_of(BlockKind::shared_block_again_layer));
  EXPECT_GE(flops_of(BlockKind::recurrent_layer), 2 * mamba_matrices);
}

// The embedding's gradient is that of the first layer and of each use, of which one is added at a time.
TEST(SharedBlocks, GradientsOfTheEmbeddingAreAddedUp) {
  for (const BlockKind kind : {BlockKind::shared_block_layer, BlockKind::shared_block_again_layer}) {
    const Graph layer = make_block(kind, context_of(64));
    const auto sum = std::ranges::find(layer.operators, "d_borrowed_embedding", &Operator::name);
    ASSERT_NE(sum, layer.operators.end());
    EXPECT_EQ(bytes_moved(layer, *sum, 1).value(), 3 * 64 * hidden * 2);
  }
}

TEST(SharedBlocks, AreMadeOnTensorRanksAndInDecoding) {
  for (const std::int64_t tensor : {1, 8})
    for (const bool decodes : {false, true}) {
      LayerContext c = context_of(64);
      c.tensor = tensor;
      c.sequence = tensor > 1 && !decodes;
      if (decodes)
        c.inference = {.kind = InferencePass::Kind::decode, .requests = 64, .new_tokens = 1, .cached_tokens = 1023};
      const Graph layer = make_block(BlockKind::shared_block_again_layer, c);
      EXPECT_EQ(check(layer), "");
      const auto gate_up = std::ranges::find(layer.tensors, "block_gate_up", &Tensor::name);
      ASSERT_NE(gate_up, layer.tensors.end());
      EXPECT_EQ(gate_up->shape[0].size, 2 * 14336 / tensor);
    }
}

TEST(SharedBlocks, StayOnOneStage) {
  Plan plan;
  plan.cluster.gpus = 3;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 33};
  EXPECT_TRUE(make_layout(plan, tests::architecture("zamba2-7b")));
  plan.parallelism.pipeline = 3;
  EXPECT_EQ(make_layout(plan, tests::architecture("zamba2-7b")).error().key, "parallelism.pipeline");
}

}  // namespace
}  // namespace plumbline::model
