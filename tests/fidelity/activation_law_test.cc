// Activations of a GPT-3 layer in 16 bit, from the lifetimes of the graph's tensors, compared with the closed forms of
// arXiv 2205.05198 (Korthikanti et al.), section 4.1 and table 2 with tensor parallelism 1.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "model/architecture/load_architecture.h"
#include "model/layers/blocks.h"
#include "model/memory/slot_memory.h"
#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

constexpr double s = 2048, b = 2, h = 12288, a = 96;

LayerContext gpt3(bool fused, const RecomputePolicy& recompute) {
  LayerContext context;
  context.architecture = load_architecture(tests::shipped("examples/models/gpt3-175b.json")).value();
  context.gemm = Precision::fp16;
  context.tokens = static_cast<std::int64_t>(s * b);
  context.sequence_length = static_cast<std::int64_t>(s);
  context.attention = fused ? AttentionKernel::fused : AttentionKernel::unfused;
  context.recompute = recompute;
  return context;
}

StepProgram one_layer(const LayerContext& context) {
  StepProgram program;
  program.blocks = {make_block(BlockKind::dense_layer, context)};
  program.stage_kinds = {{{0}}};
  return program;
}

double held_bytes(const LayerContext& context) {
  return StageTensors(one_layer(context), 0).kept_after_forward().value();
}

// Eq. 2: 34 sbh and 5 a s^2 b. Attention has 11 sbh: the input of the query, key and value GEMM 2, q and k 4, v 2, the
// input of the output GEMM 2, the dropout mask 1. The MLP has 19: inputs of its two GEMMs 2 + 8, of GELU 8, the mask 1.
// The inputs of the two norms have 4. Scores take a s^2 b each of: softmax 2, mask 1, dropout's output 2. plumbline's
// layer norm recomputes mean and deviation from its input, which the paper neglects (2 sb of each norm).
TEST(Activations, OfALayerWithoutRecomputation) {
  const double expected = s * b * h * (34 + 5 * a * s / h);
  EXPECT_DOUBLE_EQ(held_bytes(gpt3(false, {})), expected);
}

// Section 5, selective recomputation: the scores are not kept, and 34 sbh remain.
TEST(Activations, OfALayerWithSelectiveRecomputation) {
  EXPECT_DOUBLE_EQ(held_bytes(gpt3(false, {RecomputeGroup::core_attention})), s * b * h * 34);
}

// Sections 4.2.1 and 4.2.2: of t ranks without sequence parallelism each keeps 10 sbh of norms, their outputs and
// masks whole and its part of the other 24; with it, all 34 are divided.
TEST(Activations, OfALayerDividedOverTensorRanks) {
  for (const std::int64_t tensor : {2, 8}) {
    LayerContext context = gpt3(false, {RecomputeGroup::core_attention});
    context.tensor = tensor;
    const auto t = static_cast<double>(tensor);
    EXPECT_DOUBLE_EQ(held_bytes(context), s * b * h * (10 + 24 / t));
    context.sequence = true;
    EXPECT_DOUBLE_EQ(held_bytes(context), s * b * h * 34 / t);
  }
}

// Table 3 and equation 5 with selective recomputation: the layers that the first of p stages keeps in flight, L in all
// under 1F1B, hold 34 sbhL / t; the models of the paper at its micro-batch of one sequence, t = 8.
struct Published {
  const char* name;
  double layers, hidden;
};

TEST(Activations, OfThePublishedModels) {
  for (const Published& model :
       {Published{"175B", 96, 12288}, Published{"530B", 105, 20480}, Published{"1T", 128, 25600}}) {
    LayerContext context = gpt3(false, {RecomputeGroup::core_attention});
    context.architecture.hidden_size = static_cast<std::int64_t>(model.hidden);
    context.architecture.intermediate_size = 4 * context.architecture.hidden_size;
    context.architecture.heads = context.architecture.key_value_heads = 128;
    context.architecture.head_dim = context.architecture.hidden_size / 128;
    context.tokens = static_cast<std::int64_t>(s);
    context.tensor = 8;
    context.sequence = true;
    const double expected = 34 * s * model.hidden * model.layers / 8;
    EXPECT_NEAR(model.layers * held_bytes(context), expected, 0.05 * expected) << model.name;
  }
}

// A fused kernel draws its dropout again and keeps a FP32 log-sum-exp of every query and head: 4 a s b in place of
// 5 a s^2 b, which is 34 sbh + 0.1 %.
TEST(Activations, OfALayerWithFusedAttention) {
  const double held = held_bytes(gpt3(true, {}));
  EXPECT_DOUBLE_EQ(held, s * b * h * (34 + 4 * a / h));
  EXPECT_NEAR(held, s * b * h * 34, 0.05 * s * b * h * 34);
}

// Full recomputation, table 2: the layer's input alone, 2 sbh. It is the output of the block before, so that a graph
// that recomputes everything leaves nothing but its input.
TEST(Activations, OfALayerWithFullRecomputation) {
  using enum RecomputeGroup;
  const RecomputePolicy everything = {rmsnorm, mla_up_projection, swiglu, core_attention, mlp, moe, other};
  for (const bool fused : {true, false}) EXPECT_DOUBLE_EQ(held_bytes(gpt3(fused, everything)), 2 * s * b * h);
}

// Checks every kept tensor's size in units of sbh.
TEST(Activations, OfALayerAreThoseThatThePaperNames) {
  const StepProgram program = one_layer(gpt3(false, {RecomputeGroup::core_attention}));
  std::map<std::string, double> held;
  const StageTensors tensors(program, 0);
  for (TensorId id = 0; id < program.blocks[0].tensors.size(); ++id) {
    const StageTensor& tensor = tensors[tensors.index(0, id)];
    if (tensor.lifetime == Lifetime::forward_to_input || tensor.lifetime == Lifetime::forward_to_weight)
      held[program.blocks[0].tensor(id).name] = tensor.bytes.value() / (s * b * h);
  }
  const std::map<std::string, double> expected = {{"layer_in", 2},
                                                  {"attention_norm_out", 2},
                                                  {"split_qkv_0", 2},
                                                  {"split_qkv_1", 2},
                                                  {"split_qkv_2", 2},
                                                  {"weighted_values", 2},
                                                  {"residual_dropout_mask", 1},
                                                  {"attention_residual", 2},
                                                  {"mlp_norm_out", 2},
                                                  {"up_out", 8},
                                                  {"gelu_out", 8},
                                                  {"mlp_dropout_mask", 1}};
  EXPECT_EQ(held, expected);
}

}  // namespace
}  // namespace plumbline::model
