// Operands with one scale per tensor that GEMMs read along either direction: nothing is transposed, and weights have
// one copy.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "model/layers/linear.h"
#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "model/program/data_parallel.h"
#include "model/program/program.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

using tests::find;

LayerContext dense_rank(Precision gemm, bool once) {
  LayerContext c;
  c.architecture = {.hidden_size = 1024,
                    .heads = 8,
                    .key_value_heads = 8,
                    .head_dim = 128,
                    .intermediate_size = 4096,
                    .vocabulary = 1000};
  c.tokens = 4096;
  c.sequence_length = 2048;
  c.gemm = gemm;
  c.weights_cast_once = once;
  c.one_layout = true;
  return c;
}

// Weights of the projections: 4 x 1024^2 in attention, 3 x 1024 x 4096 in the MLP.
constexpr double elements = 4 * 1024.0 * 1024 + 3 * 1024.0 * 4096;

std::ptrdiff_t transposes(const Graph& layer) {
  return std::ranges::count_if(layer.operators, [](const Operator& op) {
    return op.kind == OperatorKind::cast_transpose || op.kind == OperatorKind::transpose;
  });
}

double matmul_flops(const Graph& layer) {
  double sum = 0;
  for (const Operator& op : layer.operators)
    if (op.kind == OperatorKind::matmul || op.kind == OperatorKind::grouped_matmul)
      sum += flops(layer, op, 1, false).value();
  return sum;
}

double parameter_bytes(const Plan& plan, const LayerContext& c) {
  const Graph block = make_block(BlockKind::dense_layer, c);
  const StageKind kind{{0}};
  return training_state(plan, {}, {block}, {{&kind, nullptr}}).others.parameters.value();
}

double cast_bytes(const Plan& plan, const LayerContext& c) {
  const Graph block = make_block(BlockKind::dense_layer, c);
  const StageOptimizer optimizer = make_stage_optimizer(plan, {}, stage_units(plan, {block}, {{0}}));
  double sum = 0;
  for (const Operator& op : optimizer.graph.operators)
    if (op.kind == OperatorKind::cast_transpose) sum += bytes_moved(optimizer.graph, op, 1).value();
  return sum;
}

TEST(OneLayout, NothingIsTransposed) {
  for (const bool delayed : {false, true})
    for (const bool once : {false, true}) {
      LayerContext c = dense_rank(Precision::fp8_tensor, once);
      c.delayed_scaling = delayed;
      const Graph one = make_block(BlockKind::dense_layer, c);
      ASSERT_EQ(check(one), "");
      EXPECT_EQ(transposes(one), 0);
      for (const TensorId id : find(one, "down_wgrad", Phase::W).reads) EXPECT_EQ(one.tensor(id).type, DataType::fp8);
      EXPECT_EQ(find(one, "down_wgrad", Phase::W).reads[0], find(one, "down_dgrad", Phase::I).reads[0]);
      EXPECT_EQ(find(one, "down_wgrad", Phase::W).reads[1], find(one, "down").reads[0]);
      c.one_layout = false;
      const Graph both = make_block(BlockKind::dense_layer, c);
      EXPECT_GT(transposes(both), 0);
      EXPECT_EQ(matmul_flops(one), matmul_flops(both));
    }
}

TEST(OneLayout, WeightsHaveOneCopyOrNone) {
  Plan plan;
  plan.cluster.gpus = 8;
  plan.precision = {.gemm = Precision::fp8_tensor, .weight_cast = "step", .layouts = "one"};
  LayerContext c = dense_rank(Precision::fp8_tensor, true);
  const double once = parameter_bytes(plan, c);
  EXPECT_EQ(once - parameter_bytes(plan, dense_rank(Precision::fp8_tensor, false)), elements);
  EXPECT_EQ(cast_bytes(plan, c), 3 * elements);  // BF16 is read, FP8 written
  c.quantized_weights = true;
  EXPECT_EQ(once - parameter_bytes(plan, c), 2 * elements);
  EXPECT_EQ(cast_bytes(plan, c), 0);
}

// The copy of the forward GEMM does not wait for the backward pass.
TEST(OneLayout, WeightsThatAreNotKeptAreCastAgain) {
  const Graph layer = make_block(BlockKind::dense_layer, dense_rank(Precision::fp8_tensor, false));
  const Operator& dgrad = find(layer, "down_dgrad", Phase::I);
  EXPECT_EQ(dgrad.reads[1], find(layer, "cast_down_weight_again", Phase::I).writes[0]);
  EXPECT_FALSE(std::get<MatmulAttributes>(dgrad.attributes).transpose_b);
}

TEST(OneLayout, ExpertsAreNotTransposedEither) {
  for (const bool stored : {false, true}) {
    LayerContext c = tests::deepseek_rank(Precision::bf16);
    c.gemm = Precision::fp8_tensor;
    c.dispatcher = Dispatcher::alltoall;
    c.weights_cast_once = c.one_layout = true;
    c.quantized_weights = stored;
    const Graph layer = make_block(BlockKind::moe_layer, c);
    ASSERT_EQ(check(layer), "");
    EXPECT_EQ(transposes(layer), 0);
    const Operator& wgrad = find(layer, "experts_down_wgrad", Phase::W);
    EXPECT_EQ(layer.tensor(wgrad.reads[0]).type, DataType::fp8);
    EXPECT_EQ(wgrad.reads[1], find(layer, "experts_down").reads[0]);
    EXPECT_EQ(find(layer, "experts_down_dgrad", Phase::I).reads[1], find(layer, "experts_down").reads[1]);
  }
}

TEST(OneLayout, IsOfOneScalePerTensorAlone) {
  for (const Precision precision : {Precision::fp8, Precision::mxfp8, Precision::nvfp4, Precision::bf16}) {
    LayerContext c = dense_rank(precision, true);
    const Graph one = make_block(BlockKind::dense_layer, c);
    c.one_layout = false;
    EXPECT_EQ(transposes(one), transposes(make_block(BlockKind::dense_layer, c)));
  }
}

}  // namespace
}  // namespace plumbline::model
