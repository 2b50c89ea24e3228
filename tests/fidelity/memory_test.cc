#include "model/memory/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/architecture/load_architecture.h"
#include "model/layers/blocks.h"
#include "model/memory/slot_memory.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

using tests::shipped;

// Memory in cases that estimators are known to get wrong, each compared with a figure worked out by hand.

struct Predicted {
  Plan plan;
  Layout layout;
  StepProgram program;
  Memory memory;
  TrainingState state(std::size_t rank) const {
    return training_state(plan, layout, program, memory.ranks[rank].stages);
  }
};

// Predicts on GPUs with the memory that an H800 reports and the shipped reserves.
Predicted predict(const std::string& example, const std::vector<std::string>& changes) {
  Predicted p;
  p.plan = load_plan(shipped("examples/" + example + ".toml"), changes).value();
  const Architecture architecture = load_architecture(shipped("examples/" + p.plan.model.config)).value();
  p.layout = make_layout(p.plan, architecture).value();
  p.program = compile(p.plan, architecture, p.layout).value();
  ClusterShape cluster;
  cluster.device.memory = Bytes(84943110144.0);
  cluster.device.reserve = {Bytes(569376768), Bytes(33554432), Bytes(335544320), Bytes(510154752), 0.05};
  p.memory = memory(p.plan, p.layout, p.program, cluster.device);
  return p;
}
Predicted deepseek(const std::vector<std::string>& changes = {}) { return predict("deepseek-v3-2048xh800", changes); }

const Tensor& tensor(const StepProgram& program, const std::string& block, const std::string& name) {
  for (const Graph& graph : program.blocks)
    for (const Tensor& found : graph.tensors)
      if (graph.name == block && found.name == name) return found;
  ADD_FAILURE() << block << " has no tensor " << name;
  return program.blocks.front().tensors.front();
}

TEST(MemoryCases, ExpertsAreDividedByTheExpertDegreeAlone) {
  // Each MoE layer has 256 / EP experts of 3 * 7168 * 2048 parameters, in FP8 blocks of 128 x 128 with a scale of 4 B.
  const double expert = 3.0 * 7168 * 2048 * (1 + 4 / (128.0 * 128));
  for (const int degree : {32, 64, 128}) {
    const Predicted p = deepseek({"parallelism.expert=" + std::to_string(degree)});
    // Rank 7 holds the stages 7 and 8, of 4 MoE layers each.
    EXPECT_DOUBLE_EQ(p.state(7).experts.parameters.value(), 8 * 256.0 / degree * expert) << degree;
    // Parameters outside the experts do not depend on the expert degree.
    EXPECT_EQ(p.state(7).others.parameters, deepseek().state(7).others.parameters) << degree;
  }
}

TEST(MemoryCases, ExpertsAreDividedByTheirOwnTensorDegreeAndNotByThatOfAttention) {
  const double experts = deepseek().state(7).experts.parameters.value();
  // Two ranks that divide heads and columns of all other parameters each hold whole experts.
  const std::vector<std::string> divided = {"parallelism.tensor=2", "parallelism.sequence=true"};
  const Predicted tensor = deepseek(divided);
  EXPECT_DOUBLE_EQ(tensor.state(7).experts.parameters.value(), experts);
  EXPECT_LT(tensor.state(7).others.parameters, deepseek().state(7).others.parameters);
  // Two ranks that divide the columns of an expert each hold half of it: 256 / 64 experts of half the width. Scales are
  // counted per element, so they are halved too.
  std::vector<std::string> both = divided;
  both.push_back("parallelism.expert_tensor=2");
  EXPECT_DOUBLE_EQ(deepseek(both).state(7).experts.parameters.value(), experts / 2);
  EXPECT_EQ(deepseek(both).state(7).others.parameters, tensor.state(7).others.parameters);
}

TEST(MemoryCases, TokensAreNotDividedByTheExpertDegree) {
  // A rank of a data-parallel replica has its own 4096 tokens for any EP, and its experts receive 8 rows for each of
  // them: as many as are sent, since all ranks are alike. Only the number of distinct tokens of those rows depends on
  // EP.
  for (const int degree : {8, 64, 128}) {
    const StepProgram program = deepseek({"parallelism.expert=" + std::to_string(degree)}).program;
    EXPECT_EQ(tensor(program, "moe_layer", "layer_in").shape[0].size, 4096) << degree;
    EXPECT_EQ(tensor(program, "moe_layer", "attention_out").shape[0].size, 4096) << degree;
    EXPECT_EQ(tensor(program, "moe_layer", "row_weights").shape[0].size, 8 * 4096) << degree;
    const std::int64_t received = tensor(program, "moe_layer", "received_indices").shape[0].size;
    EXPECT_GT(received, 4096) << degree;
    EXPECT_LE(received, 8 * 4096) << degree;
  }
}

TEST(MemoryCases, DeepSeeksRecomputationInFp8FitsIn80Gigabytes) {
  const Predicted published = deepseek();
  EXPECT_TRUE(published.memory.fits);
  EXPECT_LT(published.memory.peak_bytes, 80e9);
  // Each of its three parts saves memory, and without any of it the plan does not fit.
  const auto peak = [](const std::string& operators) {
    return deepseek({"recompute.operators=" + operators}).memory.peak_bytes;
  };
  EXPECT_GT(peak(R"(["mla_up_projection", "swiglu"])"), published.memory.peak_bytes);
  EXPECT_GT(peak(R"(["rmsnorm", "swiglu"])"), published.memory.peak_bytes);
  EXPECT_GT(peak(R"(["rmsnorm", "mla_up_projection"])"), published.memory.peak_bytes);
  EXPECT_FALSE(deepseek({"recompute.policy=none"}).memory.fits);
  // In BF16 the same recipe keeps two bytes for each byte of FP8.
  EXPECT_GT(deepseek({"precision.gemm=bf16", "precision.dispatch=bf16"}).memory.ranks[7].activations_peak_bytes,
            1.2 * published.memory.ranks[7].activations_peak_bytes);
}

TEST(MemoryCases, EmbeddingAndHeadStages) {
  // Llama 3 8B on two ranks: 16 layers of 4096 * (6144 + 4096 + 3 * 14336) + 2 * 4096 parameters each; the first rank
  // has the embedding of 128256 * 4096 besides, the second the head of the same size and the final norm of 4096.
  const Predicted p = predict("llama-3-8b-64xh800", {});
  const double layers = 16 * (4096.0 * (6144 + 4096 + 3 * 14336) + 2 * 4096), table = 128256.0 * 4096;
  EXPECT_DOUBLE_EQ(p.memory.ranks[0].parameters_bytes, 2 * (layers + table));
  EXPECT_DOUBLE_EQ(p.memory.ranks[1].parameters_bytes, 2 * (layers + table + 4096));
  // The head's logits of 8192 tokens, BF16, and their gradient are temporary tensors of its stage, whose peak is at
  // another moment than that of the first stage.
  EXPECT_GE(p.memory.ranks[1].temporary_bytes, 2 * 8192.0 * 128256);
  EXPECT_LT(p.memory.ranks[0].temporary_bytes, p.memory.ranks[1].temporary_bytes);
  // The two middle stages of four have neither.
  const Predicted four = predict("llama-3-8b-64xh800", {"parallelism.pipeline=4"});
  EXPECT_DOUBLE_EQ(four.memory.ranks[0].parameters_bytes - four.memory.ranks[1].parameters_bytes, 2 * table);
  EXPECT_DOUBLE_EQ(four.memory.ranks[3].parameters_bytes - four.memory.ranks[2].parameters_bytes, 2 * (table + 4096));
}

TEST(MemoryCases, DualPipeHoldsTwoStagesAndOneEmbedding) {
  const Predicted dual = deepseek();
  // With the layers of the plan, which another schedule would divide anew.
  const Predicted single =
      deepseek({"schedule.kind=1f1b", "schedule.layers_per_stage=[3,4,4,4,4,4,4,4,4,4,4,4,4,4,4,2]"});
  for (std::size_t rank = 0; rank < 16; ++rank) {
    // Each rank holds its stage and the mirrored one.
    EXPECT_EQ(dual.memory.ranks[rank].stages,
              (std::vector<std::int64_t>{static_cast<std::int64_t>(rank), 15 - static_cast<std::int64_t>(rank)}));
    EXPECT_DOUBLE_EQ(dual.memory.ranks[rank].parameters_bytes, dual.memory.ranks[15 - rank].parameters_bytes);
    if (rank == 0 || rank == 15) continue;
    const double both = single.memory.ranks[rank].parameters_bytes + single.memory.ranks[15 - rank].parameters_bytes;
    EXPECT_DOUBLE_EQ(dual.memory.ranks[rank].parameters_bytes, both);
  }
  // The first and the last stage lie on one rank: the embedding of 129280 * 7168, BF16, which multi-token prediction
  // also reads, is there once; on two ranks each has its own.
  const double table = 2 * 129280.0 * 7168;
  EXPECT_DOUBLE_EQ(dual.memory.ranks[0].parameters_bytes,
                   single.memory.ranks[0].parameters_bytes + single.memory.ranks[15].parameters_bytes - table);
  // Both copies are reduced together, so the optimizer states are divided over twice as many ranks.
  EXPECT_DOUBLE_EQ(dual.memory.ranks[7].optimizer_bytes,
                   (single.memory.ranks[7].optimizer_bytes + single.memory.ranks[8].optimizer_bytes) / 2);
}

// Activations of a GPT-3 layer in 16 bit, from the lifetimes of the graph's tensors, compared with the closed forms of
// arXiv 2205.05198 (Korthikanti et al.), section 4.1 and table 2 with tensor parallelism 1.

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
