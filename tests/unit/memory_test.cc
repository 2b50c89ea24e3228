#include "model/memory.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "model/activations.h"
#include "model/slot_template.h"
#include "model/training_state.h"
#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

using tests::shipped;

// FP32 tensors, named by what becomes of them; four bytes an element.
TensorId add(Graph& graph, std::string name, std::int64_t bytes, Role role, bool expert = false) {
  graph.tensors.push_back(
      {.name = std::move(name), .shape = {{bytes / 4}}, .type = DataType::fp32, .role = role, .expert = expert});
  return static_cast<TensorId>(graph.tensors.size() - 1);
}

// Held from F: x (100 B, until W) and s (1000 B, until I). Held from I to W: u (500 B) and dy (100 B).
// Within F: t (300 B). Within I: v (700 B). Dense parameter of 200 B, expert parameter of 400 B.
Graph tiny_block() {
  Graph g;
  g.name = "tiny";
  const TensorId x = add(g, "x", 100, Role::input), t = add(g, "t", 300, Role::activation),
                 s = add(g, "s", 1000, Role::activation), y = add(g, "y", 100, Role::activation),
                 dy = add(g, "dy", 100, Role::input), v = add(g, "v", 700, Role::activation),
                 u = add(g, "u", 500, Role::activation), dx = add(g, "dx", 100, Role::activation),
                 w = add(g, "w", 200, Role::parameter), dw = add(g, "dw", 200, Role::gradient),
                 e = add(g, "e", 400, Role::parameter, true), de = add(g, "de", 400, Role::gradient, true),
                 c = add(g, "c", 40, Role::constant);
  const auto op = [&g](Phase phase, std::vector<TensorId> reads, std::vector<TensorId> writes) {
    g.operators.push_back({.phase = phase, .reads = std::move(reads), .writes = std::move(writes)});
  };
  op(Phase::F, {x, w, c}, {t});
  op(Phase::F, {t}, {s});
  op(Phase::F, {s}, {y});
  op(Phase::I, {dy, s, c}, {v});
  op(Phase::I, {v, e}, {u});
  op(Phase::I, {u}, {dx});
  op(Phase::W, {u, x, c}, {dw});
  op(Phase::W, {u, dy}, {de});
  g.input = x;
  g.output = y;
  g.output_gradient = dy;
  g.input_gradient = dx;
  return g;
}

// One stage a rank, every stage the same blocks; messages of 100 B.
StepProgram tiny_program(const std::string& kind, std::int32_t ranks, std::int32_t micro_batches,
                         std::vector<Graph> blocks = {tiny_block()}) {
  StepProgram program;
  program.stage_kinds.resize(1);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    program.stage_kinds[0].blocks.push_back(static_cast<std::uint16_t>(i));
  program.blocks = std::move(blocks);
  program.stages.resize(static_cast<std::size_t>(ranks));
  program.schedule = find_schedule(kind).value()->build({.ranks = ranks, .micro_batches = micro_batches});
  program.batches = point_to_point_batches(program.schedule);
  for (const OpType type : {OpType::F, OpType::B, OpType::I, OpType::W, OpType::FB}) {
    const bool forward = type == OpType::F || type == OpType::FB;
    program.templates.push_back(
        make_slot_template(type, forward ? 0 : -1, type == OpType::F ? -1 : 0, program.stage_kinds, program.blocks));
  }
  for (const auto& ops : program.schedule.ranks) {
    auto& slots = program.slot_templates.emplace_back();
    for (const ScheduleOp& op : ops) slots.push_back(static_cast<std::uint16_t>(op.type));
  }
  program.activation_hop = program.gradient_hop = Bytes(100);
  return program;
}

TEST(Activations, AreWhatALaterPhaseReads) {
  const StageActivations held = stage_activations(tiny_program("1f1b", 2, 4), 0);
  EXPECT_EQ(held.forward_bytes, Bytes(1100));                 // x + s; t and y are read by F alone
  EXPECT_EQ(held.forward_until_weight_gradient, Bytes(100));  // x
  EXPECT_EQ(held.input_gradient_bytes, Bytes(600));           // u + dy; v is read by I alone
}

TEST(Activations, WhatCrossesBetweenBlocksCountsOnce) {
  const StageActivations held = stage_activations(tiny_program("1f1b", 2, 4, {tiny_block(), tiny_block()}), 0);
  // The first block's x, its y (the second block's x), and two s.
  EXPECT_EQ(held.forward_bytes, Bytes(100 + 100 + 2 * 1000));
  // Two u, the second block's dy and its dx (the first block's dy).
  EXPECT_EQ(held.input_gradient_bytes, Bytes(2 * 500 + 100 + 100));
}

TEST(Activations, MicroBatchesInFlight) {
  // 1F1B: rank r starts P - r micro-batches before its first B. GPipe: all of them.
  const StepProgram one_f_one_b = tiny_program("1f1b", 4, 8);
  const StepProgram gpipe = tiny_program("gpipe", 4, 8);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(peak_activations(one_f_one_b, rank), Bytes(1100.0 * static_cast<double>(4 - rank)));
    EXPECT_EQ(peak_activations(gpipe, rank), Bytes(8 * 1100));
  }
  // DualPipe: P + 1 = 5 on every rank, the F of a pair before its B releases. Its first I finds P = 4
  // held and adds u and dy before s goes: 4400 + 600, which is less.
  const StepProgram dualpipe = tiny_program("dualpipe", 4, 12);
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(peak_activations(dualpipe, rank), Bytes(5 * 1100));
}

TEST(Buffers, AreTheLargestWorkingSetAndTheMessages) {
  // B in launch order: dy is there from the start (100), v lives until u is written (700 + 500): 1300.
  // F needs 300 for t. Messages: on every rank a B receives one while the F before it sends one.
  const StepProgram one_f_one_b = tiny_program("1f1b", 4, 8);
  EXPECT_EQ(peak_buffers(one_f_one_b, 1), Bytes(1300 + 200));
  // In a pair F's y waits beside B's 1300 for the next batch; an interior rank then sends and receives
  // an activation and a gradient.
  const StepProgram dualpipe = tiny_program("dualpipe", 4, 12);
  EXPECT_EQ(peak_buffers(dualpipe, 1), Bytes(1300 + 100 + 400));
  // A single rank sends nothing.
  EXPECT_EQ(peak_buffers(tiny_program("1f1b", 1, 2), 0), Bytes(1300));
}

struct TinyCase {
  Plan plan;
  Layout layout;
  TinyCase() {
    plan.parallelism.zero_stage = 1;
    plan.precision.optimizer_moments = Precision::bf16;
    layout.dense_group = 4;
    layout.expert_group = 2;
  }
};

TEST(TrainingState, ShardsByTheGroupOfTheParameter) {
  TinyCase tiny;
  const StepProgram program = tiny_program("1f1b", 2, 4);
  TrainingState state = training_state(tiny.plan, tiny.layout, program, {0});
  EXPECT_EQ(state.others.parameters, Bytes(200));
  EXPECT_EQ(state.others.gradients, Bytes(200));
  EXPECT_EQ(state.others.optimizer, Bytes(50 * (4 + 2 + 2) / 4.0));  // 50 elements over 4 ranks
  EXPECT_EQ(state.experts.parameters, Bytes(400));
  EXPECT_EQ(state.experts.gradients, Bytes(400));
  EXPECT_EQ(state.experts.optimizer, Bytes(100 * (4 + 2 + 2) / 2.0));  // 100 elements over 2 ranks

  tiny.plan.parallelism.zero_stage = 0;
  state = training_state(tiny.plan, tiny.layout, program, {0});
  EXPECT_EQ(state.others.optimizer, Bytes(50 * 8));
  EXPECT_EQ(state.experts.optimizer, Bytes(100 * 8));
}

TEST(TrainingState, SharedParametersCountOnce) {
  const TinyCase tiny;
  Graph borrower;
  add(borrower, "w", 200, Role::parameter);
  borrower.tensors.back().shared = true;
  // Two borrowers beside the owner: its 200 B alone. Without the owner the rank holds one copy.
  const auto dense_parameters = [&tiny](std::vector<Graph> blocks) {
    const StepProgram program = tiny_program("1f1b", 1, 1, std::move(blocks));
    return training_state(tiny.plan, tiny.layout, program, {0}).others.parameters;
  };
  EXPECT_EQ(dense_parameters({tiny_block(), borrower, borrower}), Bytes(200));
  EXPECT_EQ(dense_parameters({borrower, borrower}), Bytes(200));
}

ClusterShape cluster(double capacity) {
  ClusterShape shape;
  shape.device.memory = Bytes(capacity);
  return shape;
}

TEST(Memory, AddsUpAndComparesWithTheDevice) {
  const TinyCase tiny;
  const Memory result = memory(tiny.plan, tiny.layout, tiny_program("1f1b", 4, 8), cluster(7700));
  ASSERT_EQ(result.ranks.size(), 4u);
  const StageMemory& first = result.ranks[0];
  // 600 + 600 + (100 + 400) + 4 * 1100 + (1300 + 200)
  EXPECT_EQ(first.peak_bytes, 7600);
  EXPECT_EQ(first.largest, "activations, 0.0 GB");
  EXPECT_EQ(result.peak_bytes, 7600);
  EXPECT_TRUE(result.fits);
  EXPECT_FALSE(memory(tiny.plan, tiny.layout, tiny_program("1f1b", 4, 8), cluster(7599)).fits);
}

TEST(Memory, DualPipeHoldsEveryStageTwice) {
  const TinyCase tiny;
  const Memory one = memory(tiny.plan, tiny.layout, tiny_program("1f1b", 4, 12), cluster(1e5));
  const Memory two = memory(tiny.plan, tiny.layout, tiny_program("dualpipe", 4, 12), cluster(1e5));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(two.ranks[rank].stages,
              (std::vector<std::int64_t>{static_cast<std::int64_t>(rank), 3 - static_cast<std::int64_t>(rank)}));
    EXPECT_EQ(two.ranks[rank].parameters_bytes, 2 * one.ranks[rank].parameters_bytes);
    EXPECT_EQ(two.ranks[rank].gradients_bytes, 2 * one.ranks[rank].gradients_bytes);
  }
}

struct Shipped {
  Plan plan;
  Layout layout;
  StepProgram program;
  Memory result;
};

Shipped deepseek(const std::vector<std::string>& changes) {
  Shipped s;
  s.plan = load_plan(shipped("examples/deepseek-v3-2048xh800.toml"), changes).value();
  const Architecture architecture = load_architecture(shipped("examples/models/deepseek-v3.json")).value();
  s.layout = make_layout(s.plan, architecture).value();
  s.program = compile(s.plan, architecture, s.layout).value();
  s.result = memory(s.plan, s.layout, s.program, cluster(84943110144.0));
  return s;
}

TEST(Memory, DeepSeekV3FitsWithItsRecomputationOnly) {
  const Shipped published = deepseek({});
  EXPECT_TRUE(published.result.fits);
  // About 41 GB of activations on an interior rank, worked out from the dimensions: 17 micro-batches of
  // 4 layers that keep about 0.6 GB each.
  EXPECT_NEAR(published.result.ranks[7].activations_bytes, 41e9, 0.06 * 41e9);

  const Shipped none = deepseek({"recompute.policy=\"none\""});
  EXPECT_FALSE(none.result.fits);
  const Shipped full = deepseek({"recompute.policy=\"full\""});
  for (std::size_t rank = 0; rank < 16; ++rank) {
    EXPECT_LT(published.result.ranks[rank].activations_bytes, none.result.ranks[rank].activations_bytes);
    EXPECT_LT(full.result.ranks[rank].activations_bytes, published.result.ranks[rank].activations_bytes);
  }
}

TEST(Memory, DeepSeekV3InteriorRankByHand) {
  // Kept per MoE layer and token, H = 7168, FP8 tile = 33/32 B, E5M6 = 49/32 B:
  //   layer input and attention residual, BF16        2 * 2 * 7168
  //   latents 1536 + 512 + 64, BF16                   2 * 2112
  //   log-sum-exp, FP32                               4 * 128
  //   attention output 128 * 128, E5M6                16384 * 49 / 32
  //   router logits, BF16, and indices, int32         2 * 256 + 4 * 8
  //   gate and up of the shared expert, FP8           4096 * 33 / 32
  //   per row (8 of them) gate and up, FP8; map, weight   4096 * 33 / 32 + 8
  //   per received token (about 7.5) its FP8 payload and indices   7168 * 33 / 32 + 4 * 8
  const Shipped published = deepseek({});
  double received = 0;
  for (const Graph& block : published.program.blocks)
    for (const Tensor& tensor : block.tensors)
      if (tensor.name == "received_indices") received = static_cast<double>(tensor.shape[0].size);
  EXPECT_NEAR(received / 4096, 7.49, 0.03);
  const double per_token = 4 * 7168 + 2 * 2112 + 4 * 128 + 16384 * 49 / 32.0 + 2 * 256 + 4 * 8 + 4096 * 33 / 32.0 +
                           8 * (4096 * 33 / 32.0 + 8);
  const double layer = 4096 * per_token + received * (7168 * 33 / 32.0 + 4 * 8);
  // Ranks 7 and 8 never run an I beside P micro-batches: P + 1 = 17 micro-batches of 4 layers. Offsets: 5 int32.
  EXPECT_NEAR(published.result.ranks[7].activations_bytes, 17 * 4 * (layer + 20), 1);

  // Stage 8: 4 MoE layers. Expert parameters 4 experts * 3 * 7168 * 2048, in FP32 gradients twice.
  const double experts = 2 * 4 * 4 * 3.0 * 7168 * 2048;
  const TrainingState state =
      training_state(published.plan, published.layout, published.program, published.result.ranks[7].stages);
  EXPECT_DOUBLE_EQ(state.experts.gradients.value(), 4 * experts);
  EXPECT_DOUBLE_EQ(state.experts.optimizer.value(), 8 * experts / 4);  // replicas 2, twice under DualPipe
}

// The optimizer's own graph and this account must speak of the same states.
TEST(Memory, OptimizerStatesAreThoseOfTheOptimizerGraph) {
  const Shipped published = deepseek({});
  for (const StageMemory& rank : published.result.ranks) {
    double states = 0;
    for (const std::int64_t stage : rank.stages) {
      const Graph& optimizer = published.program.stage_optimizers[static_cast<std::size_t>(stage)];
      for (const Operator& op : optimizer.operators)
        if (op.kind == OperatorKind::adamw)
          for (const TensorId id : op.writes)
            if (optimizer.tensor(id).role == Role::gradient) states += optimizer.tensor(id).bytes().value();
    }
    EXPECT_NEAR(rank.optimizer_bytes, states, 100);  // shards are rounded up to whole elements
  }
}

}  // namespace
}  // namespace plumbline::model
