#include "model/memory/memory.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "model/architecture/load_architecture.h"
#include "model/memory/slot_memory.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

using tests::shipped;

// Adds an FP32 tensor of four bytes an element, named by its lifetime.
TensorId add_bytes(Graph& graph, std::string name, std::int64_t bytes, Role role, bool expert = false) {
  graph.tensors.push_back(
      {.name = std::move(name), .shape = {{bytes / 4}}, .type = DataType::fp32, .role = role, .expert = expert});
  return static_cast<TensorId>(graph.tensors.size() - 1);
}

// Held from F: x (100 B, until W) and s (1000 B, until I). Held from I to W: u (500 B) and dy (100 B).
// Within F: t (300 B). Within I: v (700 B). Dense parameter of 200 B, expert parameter of 400 B.
Graph tiny_block() {
  Graph g;
  g.name = "tiny";
  const TensorId x = add_bytes(g, "x", 100, Role::input), t = add_bytes(g, "t", 300, Role::activation),
                 s = add_bytes(g, "s", 1000, Role::activation), y = add_bytes(g, "y", 100, Role::activation),
                 dy = add_bytes(g, "dy", 100, Role::input), v = add_bytes(g, "v", 700, Role::activation),
                 u = add_bytes(g, "u", 500, Role::activation), dx = add_bytes(g, "dx", 100, Role::activation),
                 w = add_bytes(g, "w", 200, Role::parameter), dw = add_bytes(g, "dw", 200, Role::gradient),
                 e = add_bytes(g, "e", 400, Role::parameter, true), de = add_bytes(g, "de", 400, Role::gradient, true),
                 c = add_bytes(g, "c", 40, Role::constant);
  const auto op = [&g](Phase phase, std::vector<TensorId> reads, std::vector<TensorId> writes) {
    const bool first = g.operators.empty() || g.operators.back().phase != phase;
    g.operators.push_back(
        {.name = first ? "first" : "later", .phase = phase, .reads = std::move(reads), .writes = std::move(writes)});
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

// Every rank has one stage, every stage the same blocks; transfers have 100 B.
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
  program.stage_message = Bytes(100);
  return program;
}

TEST(StageTensors, HaveTheLifetimeOfEach) {
  const StageTensors tensors(tiny_program("1f1b", 2, 4), 0);
  EXPECT_EQ(tensors.kept(Lifetime::forward_to_input), Bytes(1000));         // s; t and y are read by F alone
  EXPECT_EQ(tensors.kept(Lifetime::forward_to_weight), Bytes(100));         // x
  EXPECT_EQ(tensors.kept(Lifetime::input_gradient_to_weight), Bytes(600));  // u + dy; v is read by I alone
}

TEST(StageTensors, WhatCrossesBetweenBlocksCountsOnce) {
  const StageTensors tensors(tiny_program("1f1b", 2, 4, {tiny_block(), tiny_block()}), 0);
  // The first block's x, its y (the second block's x), and two s.
  EXPECT_EQ(tensors.kept_after_forward(), Bytes(100 + 100 + 2 * 1000));
  // Two u, the second block's dy and its dx (the first block's dy).
  EXPECT_EQ(tensors.kept(Lifetime::input_gradient_to_weight), Bytes(2 * 500 + 100 + 100));
}

// {activations, temporary} at every moment of a slot.
using ByteLevels = std::vector<std::pair<double, double>>;
ByteLevels byte_levels(const SlotMemory& slot) {
  ByteLevels found;
  for (const SlotMoment& moment : slot.moments)
    found.emplace_back(moment.activations.value(), moment.temporary.value());
  return found;
}
SlotMemory tiny_slot(OpType type) { return slot_memories(tiny_program("1f1b", 2, 4))[static_cast<std::size_t>(type)]; }

TEST(SlotMemory, ForwardKeepsWhatLaterPhasesRead) {
  // x was received; t lives until s is written; y leaves with the slot.
  const SlotMemory slot = tiny_slot(OpType::F);
  EXPECT_EQ(byte_levels(slot), (ByteLevels{{100, 300}, {1100, 300}, {1100, 100}}));
  EXPECT_EQ(slot.fullest, 1u);
  EXPECT_EQ(slot.kept, Bytes(1100));
}

TEST(SlotMemory, BackwardReleasesAfterTheLastReader) {
  // dy was received (100, until its last reader), v 700 until u is written, u 500 until its last reader, dx leaves
  // (100). s is freed after the first operator, x after the first of W.
  const SlotMemory slot = tiny_slot(OpType::B);
  EXPECT_EQ(byte_levels(slot), (ByteLevels{{0, 800}, {-1000, 1300}, {-1000, 700}, {-1000, 700}, {-1100, 700}}));
  EXPECT_EQ(slot.fullest, 0u);
  EXPECT_EQ(slot.kept, Bytes(-1100));
}

// 32 tokens and 1,000 words: logits of 64,000 B, or 128,000 B in FP32.
SlotMemory head_slot(bool fused, bool in_place, OpType type) {
  LayerContext c;
  c.architecture.hidden_size = 64;
  c.architecture.vocabulary = 1000;
  c.tokens = c.sequence_length = 32;
  c.fused_loss = fused;
  c.loss_in_place = in_place;
  return slot_memories(tiny_program("1f1b", 1, 1, {make_block(BlockKind::head, c)}))[static_cast<std::size_t>(type)];
}

TEST(SlotMemory, ALossInPlaceOverwritesItsLogits) {
  const SlotMemory apart = head_slot(true, false, OpType::B), over = head_slot(true, true, OpType::B);
  EXPECT_EQ(apart.moments.front().sum() - over.moments.front().sum(), Bytes(32 * 1000 * 2));  // cross_entropy_grad
  EXPECT_EQ(apart.kept, over.kept);
  // With the weight gradient apart the overwritten logits stay for it as their gradient would.
  EXPECT_EQ(head_slot(true, false, OpType::I).kept, head_slot(true, true, OpType::I).kept);
}

// Logits of 64,000 B, which a backward slot finds, and their gradient are there in quarters; a head that computes its
// loss writes none, and has the gradient of 3,072 words at a time, here of all 1,000. Both keep no more, and the second
// nothing of the logits.
TEST(SlotMemory, LogitsInChunksAreInMemoryOneByOne) {
  LayerContext c;
  c.architecture.hidden_size = 64;
  c.architecture.vocabulary = 1000;
  c.tokens = c.sequence_length = 32;
  const auto slots = [&c] { return slot_memories(tiny_program("1f1b", 1, 1, {make_block(BlockKind::head, c)})); };
  const auto forward = static_cast<std::size_t>(OpType::F), backward = static_cast<std::size_t>(OpType::B);
  const auto whole = slots();
  c.loss_chunks = 4;
  const auto chunked = slots();
  EXPECT_EQ(whole[forward].kept - chunked[forward].kept, Bytes(64000 * 3 / 4));
  EXPECT_EQ(whole[backward].moments.front().sum() - chunked[backward].moments.front().sum(), Bytes(64000 * 3 / 4));
  c.loss_chunks = 1;
  c.loss_in_head = true;
  EXPECT_EQ(whole[forward].kept - slots()[forward].kept, Bytes(64000));
}

TEST(SlotMemory, AnUnfusedLossInPlaceOverwritesItsLogarithms) {
  const auto last = [](bool in_place) { return head_slot(false, in_place, OpType::F).moments.back().sum(); };
  EXPECT_EQ(last(false) - last(true), Bytes(32 * 1000 * 4));  // cross_entropy
  const auto first = [](bool in_place) { return head_slot(false, in_place, OpType::B).moments.front().sum(); };
  EXPECT_EQ(first(false) - first(true), Bytes(32 * 1000 * 4));  // cross_entropy_grad
}

TEST(SlotMemory, SplitBackwardKeepsWhatTheWeightGradientReads) {
  // I keeps dy and u for W. W frees x after its first operator, u and dy with the slot.
  const SlotMemory input = tiny_slot(OpType::I);
  EXPECT_EQ(byte_levels(input), (ByteLevels{{100, 700}, {-400, 700}, {-400, 100}}));
  EXPECT_EQ(input.kept, Bytes(600 - 1000));
  const SlotMemory weight = tiny_slot(OpType::W);
  EXPECT_EQ(byte_levels(weight), (ByteLevels{{0, 0}, {-100, 0}}));
  EXPECT_EQ(weight.kept, Bytes(-100 - 600));
}

TEST(SlotMemory, APairHoldsBothSides) {
  // The slot is attention of F, then I and W of B. Its levels are F's with B's dy added (received at the start), then
  // B's with F's 1100 kept and its y (100) waiting to be sent.
  const SlotMemory slot = tiny_slot(OpType::FB);
  EXPECT_EQ(
      byte_levels(slot),
      (ByteLevels{{100, 400}, {1100, 400}, {1100, 200}, {1100, 900}, {100, 1400}, {100, 800}, {100, 800}, {0, 800}}));
  EXPECT_EQ(slot.fullest, 3u);
  EXPECT_EQ(slot.most_kept, Bytes(1100));
  EXPECT_EQ(slot.kept, Bytes(0));
}

MemoryTimeline timeline(const StepProgram& program, std::size_t rank) {
  return memory_timeline(program, slot_memories(program), rank);
}

TEST(MemoryTimeline, MicroBatchesInFlight) {
  // 1F1B: rank r starts P - r micro-batches before its first B, GPipe all of them; each keeps 1100.
  const StepProgram one_f_one_b = tiny_program("1f1b", 4, 8);
  const StepProgram gpipe = tiny_program("gpipe", 4, 8);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(timeline(one_f_one_b, rank).activations_peak, Bytes(1100.0 * static_cast<double>(4 - rank)));
    EXPECT_EQ(timeline(gpipe, rank).activations_peak, Bytes(8 * 1100));
  }
  // DualPipe: P + 1 = 5 on every rank, while the F of a pair has ended and its B has not released any memory.
  const StepProgram dualpipe = tiny_program("dualpipe", 4, 12);
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(timeline(dualpipe, rank).activations_peak, Bytes(5 * 1100));
}

TEST(MemoryTimeline, NamesThePeak) {
  // Rank 0 keeps 4 * 1100 when its first B begins, which needs 800 at its first operator; the activation of the F
  // before has been sent. A later F starts with 3 * 1100 and needs 1400.
  const StepProgram program = tiny_program("1f1b", 4, 8);
  const std::vector<SlotMemory> slots = slot_memories(program);
  const MemoryTimeline rank = memory_timeline(program, slots, 0);
  const MemoryMoment& fullest = rank.ops[rank.fullest];
  EXPECT_EQ(fullest.activations, Bytes(4400));
  EXPECT_EQ(fullest.temporary, Bytes(800));
  EXPECT_EQ(fullest.communication, Bytes(0));
  EXPECT_EQ(describe(program, slots, 0, fullest), "first of tiny in B of micro-batch 0");
  // One for each op, and one for the end of the step.
  ASSERT_EQ(rank.ops.size(), program.schedule.ranks[0].size() + 1);
  EXPECT_EQ(describe(program, slots, 0, rank.ops.back()), "end of the step");
  // Rank 1 then still has to send its last gradient.
  const MemoryTimeline second = memory_timeline(program, slots, 1);
  EXPECT_EQ(describe(program, slots, 1, second.ops.back()), "messages after the last op");
  EXPECT_EQ(second.ops.back().sum(), Bytes(100));
  EXPECT_EQ(second.left, Bytes(0));
}

TEST(MemoryTimeline, BatchedMessagesWaitForTheirSlot) {
  // DualPipe's batch before a pair of a middle rank: the activation and the gradient that the pair before computed
  // (200), and the two that this one receives (200), in addition to four micro-batches.
  const StepProgram program = tiny_program("dualpipe", 4, 12);
  const std::vector<SlotMemory> slots = slot_memories(program);
  const auto& ops = program.schedule.ranks[1];
  std::size_t pair = 1;
  while (ops[pair].type != OpType::FB || ops[pair - 1].type != OpType::FB) ++pair;
  const auto moments = memory_within(program, slots, 1, static_cast<std::int32_t>(pair));
  EXPECT_TRUE(moments.front().messages);
  EXPECT_EQ(moments.front().activations, Bytes(4400));
  EXPECT_EQ(moments.front().communication, Bytes(400));
  // While the pair runs, all of them are tensors of the slot or freed.
  ASSERT_EQ(moments.size(), 1 + slots[static_cast<std::size_t>(OpType::FB)].moments.size());
  EXPECT_EQ(moments[4].communication, Bytes(0));
  EXPECT_EQ(moments[4].sum(), Bytes(4400 + 2000));
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

TEST(TrainingState, Fp32SumsAreDividedLikeTheGradients) {
  TinyCase tiny;
  tiny.plan.optimizer.gradient_copy = "fp32";
  const StepProgram program = tiny_program("1f1b", 2, 4);
  TrainingState state = training_state(tiny.plan, tiny.layout, program, {0});
  EXPECT_EQ(state.others.gradients, Bytes(200 + 50 * 4));
  EXPECT_EQ(state.experts.gradients, Bytes(400 + 100 * 4));
  tiny.plan.parallelism.zero_stage = 2;
  state = training_state(tiny.plan, tiny.layout, program, {0});
  EXPECT_EQ(state.others.gradients, Bytes((200 + 50 * 4) / 4.0));
}

TEST(TrainingState, CountsParametersOfARank) {
  const TinyCase tiny;
  const ParameterCounts counts = training_state(tiny.plan, tiny.layout, tiny_program("1f1b", 2, 4), {0}).counts;
  EXPECT_EQ(counts.held, 50 + 100);
  EXPECT_EQ(counts.updated, 50 / 4.0 + 100 / 2.0);
  EXPECT_EQ(counts.largest, 100);
  EXPECT_EQ(counts.shapes, 0);  // neither is a matrix
}

TEST(TrainingState, SharedParametersCountOnce) {
  const TinyCase tiny;
  Graph borrower;
  add_bytes(borrower, "w", 200, Role::parameter);
  borrower.tensors.back().shared = true;
  // Two borrowers in addition to the owner use its 200 B alone. Without the owner the rank holds one copy.
  const auto dense_parameters = [&tiny](std::vector<Graph> blocks) {
    const StepProgram program = tiny_program("1f1b", 1, 1, std::move(blocks));
    return training_state(tiny.plan, tiny.layout, program, {0}).others.parameters;
  };
  EXPECT_EQ(dense_parameters({tiny_block(), borrower, borrower}), Bytes(200));
  EXPECT_EQ(dense_parameters({borrower, borrower}), Bytes(200));
}

Device device_of(double capacity) {
  Device device;
  device.memory = Bytes(capacity);
  return device;
}

TEST(Memory, AddsUpAndComparesWithTheDevice) {
  const TinyCase tiny;
  const Memory result = memory(tiny.plan, tiny.layout, tiny_program("1f1b", 4, 8), device_of(7700));
  ASSERT_EQ(result.ranks.size(), 4u);
  const RankMemory& first = result.ranks[0];
  // 600 + 600 + (100 + 400) + 4 * 1100 + 800, and two gradient buckets, which are no larger than the gradients.
  EXPECT_EQ(first.peak_bytes, 6900 + 600);
  EXPECT_EQ(first.activations_bytes, 4400);
  EXPECT_EQ(first.buffers_bytes(), 800 + 600);
  EXPECT_EQ(first.largest, "activations, 0.0 GB");
  EXPECT_EQ(first.peak_operator, "first of tiny in B of micro-batch 0");
  EXPECT_EQ(result.peak_bytes, 7500);
  EXPECT_EQ(fullest_rank(result)->rank, 0);
  EXPECT_EQ(first.unused_low_bytes, 0);
  EXPECT_EQ(first.allocated_bytes + first.library_bytes, first.peak_bytes);
  EXPECT_TRUE(result.fits);
  EXPECT_FALSE(memory(tiny.plan, tiny.layout, tiny_program("1f1b", 4, 8), device_of(7499)).fits);
}

// Allocators fill both devices, so that what the ranks need at least decides.
TEST(Memory, TheFullestRankIsTheOneThatDecides) {
  Memory full;
  full.peak_bytes = full.capacity_bytes = 80;
  for (const double least : {70.0, 76.0}) {
    RankMemory rank;
    rank.rank = static_cast<std::int64_t>(full.ranks.size());
    rank.peak_bytes = rank.high_bytes = 80;
    rank.low_bytes = least;
    full.ranks.push_back(rank);
  }
  EXPECT_EQ(fullest_rank(full)->rank, 1);
  full.capacity_bytes = 160;
  EXPECT_EQ(fullest_rank(full)->rank, 0);
  EXPECT_EQ(fullest_rank(Memory{}), nullptr);
}

TEST(Memory, ReservesAreTheDevices) {
  TinyCase tiny;
  tiny.plan.parallelism.pipeline = 4;
  Device device = device_of(1e6);
  device.reserve = {Bytes(1000), Bytes(10), Bytes(50), Bytes(70), 0.5};
  const StepProgram program = tiny_program("1f1b", 4, 8);
  // A context and a workspace for each of two streams; half of the 5200 bytes that are allocated and freed.
  const Memory result = memory(tiny.plan, tiny.layout, program, device);
  EXPECT_EQ(result.ranks[0].reserve_bytes, 1000 + 2 * 10 + 0.5 * 5200);
  // Connections of two groups (pipeline, gradients), two buckets.
  EXPECT_EQ(result.ranks[0].communication_bytes, 2 * 50 + 600);
  // With experts on several ranks there are also a group for their gradients and the all-to-all.
  tiny.plan.parallelism.expert = 2;
  tiny.layout.experts_per_rank = 1;
  EXPECT_EQ(memory(tiny.plan, tiny.layout, program, device).ranks[0].communication_bytes, 3 * 50 + 70 + 600);
}

RankHolding holding_of_a_rank() {
  RankHolding holding;
  holding.state = Bytes(2000);
  holding.gradients = Bytes(500);
  holding.counts = {.held = 100, .updated = 25, .largest = 40, .shards = Bytes(80), .shapes = 60};
  holding.dynamic = Bytes(1000);
  holding.outputs = Bytes(300);
  return holding;
}

TEST(RankPeak, SoftwareAddsWhatItsConstantsState) {
  const TinyCase tiny;
  Device device = device_of(1e6);
  device.reserve.context = Bytes(1000);
  device.reserve.fragmentation = 0.5;
  device.reserve.fragmentation_low = 0.1;
  device.reserve.fragmentation_high = 1;
  device.reserve.reduction_buffers = Bytes(70);
  device.reserve.update_copies = Bytes(6);
  device.reserve.reduced_copies = Bytes(2);
  device.reserve.separate_gradients = device.reserve.shape_gradients = device.reserve.stage_outputs = true;
  RankPeak peak = rank_peak(tiny.plan, tiny.layout, device, holding_of_a_rank());
  EXPECT_EQ(peak.buffers, Bytes(70));  // instead of two buckets
  EXPECT_EQ(peak.software, Bytes(40 * 4 + 60 * 2 + 300));
  EXPECT_EQ(peak.held, Bytes(0.5 * 1000 + 25 * 6));
  EXPECT_EQ(peak.sum(), Bytes(2000 + 1000 + 70 + 580 + 1000 + 650));
  EXPECT_EQ(peak.low, Bytes(3650 + 1100));  // the update's copies take the place of the activations
  EXPECT_EQ(peak.high, Bytes(3650 + 2000 + 150));
  EXPECT_EQ(peak.allocated(), Bytes(2000 + 1000 + 580 + 70));
  EXPECT_EQ(peak.segments(), Bytes(3650 + 650));
  // With FP32 sums the copies are of all parameters.
  Plan sums = tiny.plan;
  sums.optimizer.gradient_copy = "fp32";
  EXPECT_EQ(rank_peak(sums, tiny.layout, device, holding_of_a_rank()).held, Bytes(0.5 * 1000 + 100 * 2));
  // Tensors of one size leave nothing unused between them.
  Plan recomputing = tiny.plan;
  recomputing.recompute.policy = "full";
  RankHolding even = holding_of_a_rank();
  even.kept = Bytes(800);
  EXPECT_EQ(rank_peak(recomputing, tiny.layout, device, even).held, Bytes(0.5 * 200 + 25 * 6));
  // A full device gets back what is unused, and no more.
  device.memory = Bytes(5000);
  peak = rank_peak(tiny.plan, tiny.layout, device, holding_of_a_rank());
  EXPECT_EQ(peak.sum(), Bytes(5000));
  // What it would hold without limit stays known.
  EXPECT_EQ(peak.held_low, Bytes(0.1 * 1000));
  EXPECT_EQ(peak.held_usual, Bytes(0.5 * 1000 + 150));
  EXPECT_EQ(peak.held_high, Bytes(1000 + 150));
  device.memory = Bytes(4000);
  peak = rank_peak(tiny.plan, tiny.layout, device, holding_of_a_rank());
  EXPECT_EQ(peak.sum(), Bytes(4750));
  // Shards of parameters that are the master weights count once.
  device.reserve.master_shards = true;
  EXPECT_EQ(rank_peak(tiny.plan, tiny.layout, device, holding_of_a_rank()).sum(), Bytes(4750 - 80));
}

TEST(RankPeak, ConstantsOfTheProfileReplaceTheDevices) {
  Device device = device_of(1e6);
  device.reserve.context = Bytes(1000);
  device.reserve.fragmentation = 0.05;
  EXPECT_EQ(with_allocator(device, Profile()), device);
  const auto constant = [](const char* name, double value, const char* unit) {
    return Parameter{.name = name, .value = value, .unit = unit, .source = "test"};
  };
  std::vector<Parameter> constants = {
      constant("allocator.context", 2000, "B"), constant("allocator.fragmentation", 0.4, "1"),
      constant("allocator.reduction_buffers", 0, "B"), constant("allocator.stage_outputs", 1, "1")};
  constants[1].relative_uncertainty = 0.5;
  const Device changed = with_allocator(device, Profile("test", "", constants));
  EXPECT_EQ(changed.reserve.context, Bytes(2000));
  EXPECT_EQ(changed.reserve.fragmentation, 0.4);
  EXPECT_DOUBLE_EQ(changed.reserve.fragmentation_low, 0.2);
  EXPECT_DOUBLE_EQ(changed.reserve.fragmentation_high, 0.6);
  EXPECT_EQ(changed.reserve.reduction_buffers, Bytes(0));
  EXPECT_TRUE(changed.reserve.stage_outputs);
  EXPECT_FALSE(changed.reserve.separate_gradients);
}

TEST(Memory, RankLevelsAddUpToThePeak) {
  const TinyCase tiny;
  const StepProgram program = tiny_program("1f1b", 4, 8);
  const std::vector<SlotMemory> slots = slot_memories(program);
  const Memory result = memory(tiny.plan, tiny.layout, program, device_of(1e5), slots);
  const RankLevels levels = rank_levels(result, program, slots, 0);
  EXPECT_EQ(levels.ops[levels.fullest].total_bytes, result.ranks[0].peak_bytes);
  EXPECT_EQ(levels.ops[levels.fullest].op, "B");
  // At the end only the training state and the buckets are left.
  EXPECT_EQ(levels.ops.back().total_bytes, 600 + 600 + 500 + 600);
  EXPECT_EQ(levels.ops.back().op, "");
  // The op with the peak is the first B: its transfers (4400, one arrived, one leaving), then its five operators.
  ASSERT_EQ(levels.peak.size(), 1u + 5u);
  EXPECT_EQ(levels.peak[0].total_bytes, 2300 + 4400 + 200);
  EXPECT_EQ(levels.peak[2].total_bytes, 2300 + 4400 - 1000 + 1300);
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
  s.result = memory(s.plan, s.layout, s.program, device_of(84943110144.0));
  return s;
}

TEST(Memory, DeepSeekV3MiddleRankByHand) {
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
  // Ranks 7 and 8 never run an I while they hold P micro-batches: P + 1 = 17 micro-batches of 4 layers. Offsets: 5
  // int32.
  EXPECT_NEAR(published.result.ranks[7].activations_peak_bytes, 17 * 4 * (layer + 20), 1);
  // The peak is a little later: the first B has released the tensors that its last layer no longer needs.
  EXPECT_LT(published.result.ranks[7].activations_bytes, 17 * 4 * (layer + 20));
  EXPECT_GT(published.result.ranks[7].activations_bytes, (17 * 4 - 1) * (layer + 20));

  // Stage 8: 4 MoE layers. Expert parameters 4 experts * 3 * 7168 * 2048, in FP32 gradients twice.
  const double experts = 2 * 4 * 4 * 3.0 * 7168 * 2048;
  const TrainingState state =
      training_state(published.plan, published.layout, published.program, published.result.ranks[7].stages);
  EXPECT_DOUBLE_EQ(state.experts.gradients.value(), 4 * experts);
  EXPECT_DOUBLE_EQ(state.experts.optimizer.value(), 8 * experts / 4);  // replicas 2, twice under DualPipe
}

// The optimizer's own graph and this account must have the same states.
TEST(Memory, OptimizerStatesAreThoseOfTheOptimizerGraph) {
  const Shipped published = deepseek({});
  for (const RankMemory& rank : published.result.ranks) {
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
