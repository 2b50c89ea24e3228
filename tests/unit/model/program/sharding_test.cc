#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/architecture/metrics.h"
#include "model/cost/work.h"
#include "model/memory/memory.h"
#include "model/memory/slot_memory.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "model/program/data_parallel.h"
#include "model/program/program.h"
#include "tests/support/architectures.h"

namespace plumbline::model {
namespace {

using testing::HasSubstr;
using tests::architecture;

constexpr std::int64_t group = 8, replicas_of_experts = 4, expert = 2;

struct Case {
  Plan plan;
  Layout layout;
  explicit Case(std::int64_t zero) {
    plan.parallelism.zero_stage = zero;
    layout.dense_group = group;
    layout.expert_group = replicas_of_experts;
    layout.expert_stride = expert;
  }
};

TEST(ShardGroup, IsAllRanksByDefault) {
  const Case replicated(0), sharded(1);
  const ShardGroup none = shard_group(replicated.plan, replicated.layout, false);
  EXPECT_EQ(none.shards, 1);
  EXPECT_EQ(none.replicas, group);
  const ShardGroup dense = shard_group(sharded.plan, sharded.layout, false);
  EXPECT_EQ(dense.shards, group);
  EXPECT_EQ(dense.replicas, 1);
  const ShardGroup experts = shard_group(sharded.plan, sharded.layout, true);
  EXPECT_EQ(experts.shards, replicas_of_experts);
  EXPECT_EQ(experts.stride, expert);
}

TEST(ShardGroup, ReplicasLieBetweenGroups) {
  Case c(3);
  c.plan.parallelism.shard_group = 4;
  const ShardGroup dense = shard_group(c.plan, c.layout, false);
  EXPECT_EQ(dense.shards, 4);
  EXPECT_EQ(dense.stride, 1);
  EXPECT_EQ(dense.replicas, 2);
  EXPECT_EQ(dense.replica_stride, 4);
  // Two of four adjacent ranks hold the same experts.
  const ShardGroup experts = shard_group(c.plan, c.layout, true);
  EXPECT_EQ(experts.shards, 2);
  EXPECT_EQ(experts.stride, 2);
  EXPECT_EQ(experts.replicas, 2);
  EXPECT_EQ(experts.replica_stride, 4);
  // A group smaller than the experts' spread has each expert once.
  c.plan.parallelism.shard_group = 1;
  EXPECT_EQ(shard_group(c.plan, c.layout, true).shards, 1);
}

void expect_refusal(const Case& c, const std::string& key, const std::string& hint) {
  const auto error = check_sharding(c.plan, c.layout);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::infeasible);
  EXPECT_EQ(error->key, key);
  EXPECT_EQ(error->hint, hint);
}

// 32 layers have 96 gathers and reductions for each micro-batch: 104,166 micro-batches have 9,999,936, one more has
// more than ten million. 16 ranks of two sequences each then have 3,333,312 sequences.
TEST(CheckSharding, RefusesMoreCollectivesThanCanBeHeld) {
  Case c(3);
  c.layout.stage_layers.assign(1, std::vector<std::int64_t>(32));
  c.layout.data = 16;
  c.plan.batch.micro_batch_size = 2;
  c.layout.micro_batches = 104'166;
  EXPECT_FALSE(check_sharding(c.plan, c.layout));
  c.layout.micro_batches = 104'167;
  expect_refusal(c, "batch.global_batch_size", "use at most 3333312 sequences, or zero_stage 1");
  c.plan.parallelism.zero_stage = 2;  // a reduction of each: 312,500 micro-batches
  c.layout.micro_batches = 312'500;
  EXPECT_FALSE(check_sharding(c.plan, c.layout));
  c.layout.micro_batches = 312'501;
  expect_refusal(c, "batch.global_batch_size", "use at most 10000000 sequences, or zero_stage 1");
  c.plan.parallelism.zero_stage = 1;  // once a step
  EXPECT_FALSE(check_sharding(c.plan, c.layout));
}

TEST(ShardGroup, MustDivideWhatReduces) {
  Case c(2);
  EXPECT_FALSE(check_sharding(c.plan, c.layout));
  c.plan.parallelism.shard_group = 3;
  expect_refusal(c, "parallelism.shard_group", "use 2 or 4");
  c.plan.parallelism.shard_group = 100;
  expect_refusal(c, "parallelism.shard_group", "use 8");
  c.plan.parallelism.shard_group = 4;
  EXPECT_FALSE(check_sharding(c.plan, c.layout));
  c.layout.dense_group = 24;
  c.plan.parallelism.shard_group = 3;
  expect_refusal(c, "parallelism.shard_group", "use 2");  // neither a multiple nor a divisor of the experts' 2
  c.plan.parallelism.zero_stage = 0;
  expect_refusal(c, "parallelism.shard_group", "set parallelism.zero_stage to 1, 2 or 3 (FSDP)");
}

// Returns a block with three parameters of 100, 300 and 50 elements with FP32 gradients, read in F and in I, written in
// W.
Graph block() {
  Graph g;
  const auto add = [&g](std::string name, std::int64_t elements, DataType type, Role role) {
    g.tensors.push_back({.name = std::move(name), .shape = {{elements}}, .type = type, .role = role});
    return static_cast<TensorId>(g.tensors.size() - 1);
  };
  const std::vector<std::pair<std::string, std::int64_t>> sizes = {{"a", 100}, {"b", 300}, {"c", 50}};
  for (const auto& [name, elements] : sizes) {
    const TensorId parameter = add(name, elements, DataType::bf16, Role::parameter);
    const TensorId gradient = add("d_" + name, elements, DataType::fp32, Role::gradient);
    g.operators.push_back({.phase = Phase::F, .reads = {parameter}});
    g.operators.push_back({.phase = Phase::I, .reads = {parameter}});
    g.operators.push_back({.phase = Phase::W, .writes = {gradient}});
  }
  return g;
}

std::vector<double> unit_elements(const Plan& plan, const std::vector<Graph>& blocks, const StageKind& stage) {
  std::vector<double> elements;
  for (const StageUnit& unit : stage_units(plan, blocks, stage)) {
    double sum = 0;
    for (const UnitPiece& piece : unit.pieces) sum += piece.elements;
    elements.push_back(sum);
  }
  return elements;
}

TEST(StageUnits, CloseAtTheGradientThatFillsThem) {
  Plan plan;
  plan.overlap.gradient_bucket_bytes = 4 * 400;
  // Twice a, b, c, last block first: a and b fill the first (400 elements), c, a and b the second (450), c remains.
  EXPECT_EQ(unit_elements(plan, {block()}, {{0, 0}}), (std::vector<double>{400, 450, 50}));
  plan.overlap.gradient_bucket_bytes = 1;
  EXPECT_EQ(unit_elements(plan, {block()}, {{0}}), (std::vector<double>{100, 300, 50}));
  plan.parallelism.zero_stage = 3;  // blocks, whatever the bucket
  EXPECT_EQ(unit_elements(plan, {block()}, {{0, 0}}), (std::vector<double>{450, 450}));
}

TEST(StageUnits, CoverBorrowersAndExperts) {
  Graph borrower = block();
  for (Tensor& tensor : borrower.tensors) tensor.shared = true;
  Graph experts = block();
  for (Tensor& tensor : experts.tensors) tensor.expert = true;
  const std::vector<StageUnit> units = stage_units({}, {block(), borrower, experts}, {{0, 1, 2}});
  ASSERT_EQ(units.size(), 2u);  // the experts' come first: theirs is the last block
  EXPECT_TRUE(units[0].expert);
  EXPECT_FALSE(units[1].expert);
  EXPECT_EQ(units[1].parameters.size(), 6u);  // three of the owner, three of the borrower
  EXPECT_EQ(units[1].gradients.size(), 6u);
  EXPECT_EQ(units[1].pieces[0].elements, 450);  // counted once
}

// Three blocks on one rank, one micro-batch: slot 0 runs F of block 0, 1, 2, slot 1 B of block 2, 1, 0.
StepProgram lone_program(const Plan& plan) {
  StepProgram program;
  program.blocks = {block()};
  program.stage_kinds = {{{0, 0, 0}}};
  program.stages = {{0, {0, 1, 2}}};
  program.schedule = find_schedule("1f1b").value()->build({.ranks = 1, .micro_batches = 1});
  program.slot_templates = {{0, 1}};
  program.templates.resize(2);
  const auto segment = [](bool forward, Phase phase, std::uint16_t position) {
    Segment s;
    s.forward_side = forward;
    s.phase = phase;
    s.block_of_stage = position;
    for (int i = 0; i < 3; ++i) s.operators.push_back(static_cast<std::uint16_t>(3 * i + static_cast<int>(phase)));
    return s;
  };
  for (std::uint16_t position = 0; position < 3; ++position) {
    program.templates[0].segments.push_back(segment(true, Phase::F, position));
    const auto backward = static_cast<std::uint16_t>(2 - position);
    program.templates[1].segments.push_back(segment(false, Phase::I, backward));
    program.templates[1].segments.push_back(segment(false, Phase::W, backward));
  }
  for (const StageUnit& unit : stage_units(plan, program.blocks, program.stage_kinds[0])) {
    program.stage_units.resize(1);
    program.stage_units[0].push_back({.parameters = unit.parameters, .gradients = unit.gradients});
  }
  program.data_parallel = data_parallel(plan, program);
  return program;
}

using Shared = DataParallelCollectives::Kind;
struct Line {
  Shared kind;
  int unit, after_slot, after_segment, before_slot, before_segment;
  bool operator==(const Line&) const = default;
};

std::vector<Line> lines(const Plan& plan) {
  std::vector<Line> all;
  const StepProgram program = lone_program(plan);
  for (const DataParallelCollectives& s : program.data_parallel[0])
    all.push_back({s.kind, s.unit, s.after.slot, s.after.segment, s.before.slot, s.before.segment});
  return all;
}

TEST(DataParallelSchedule, GathersRunAsFarAheadAsThereAreBuffers) {
  using enum Shared;
  Plan plan;
  plan.parallelism.zero_stage = 3;
  // Units 2, 1, 0 are blocks 0, 1, 2. With one buffer more than is needed, a gather starts when the use two before it
  // has ended. Block 2 is still there when its backward begins; the backward segments are I, W of block 2 (0, 1), 1 (2,
  // 3), 0 (4, 5), and parameters are read in I.
  const std::vector<Line> expected = {{gather, 2, -1, -1, 0, 0}, {gather, 1, -1, -1, 0, 1}, {gather, 0, 0, 0, 0, 2},
                                      {gather, 1, 0, 1, 1, 2},   {gather, 2, 1, 0, 1, 4},   {reduce, 0, 1, 1, -1, -1},
                                      {reduce, 1, 1, 3, -1, -1}, {reduce, 2, 1, 5, -1, -1}};
  EXPECT_EQ(lines(plan), expected);
  // Parameters kept until the backward are gathered once each.
  plan.parallelism.reshard_after_forward = false;
  EXPECT_EQ(lines(plan).size(), 6u);
}

TEST(DataParallelSchedule, WithoutOverlapReductionsFollowTheSlots) {
  using enum Shared;
  Plan plan;
  plan.overlap.gradient_reduce = false;
  plan.overlap.gradient_bucket_bytes = 1e9;
  EXPECT_EQ(lines(plan), (std::vector<Line>{{reduce, 0, 1, -1, -1, -1}}));
  // With overlap the one bucket waits for the very last segment.
  plan.overlap.gradient_reduce = true;
  EXPECT_EQ(lines(plan), (std::vector<Line>{{reduce, 0, 1, 5, -1, -1}}));
}

TEST(TrainingState, ShardsWhatTheStageShards) {
  // 1350 elements: parameters 2700 B, gradients 5400 B, states 12 B an element; 8 shards.
  const auto state = [](std::int64_t zero, bool offload = false) {
    Case c(zero);
    c.plan.offload.optimizer = offload;
    return training_state(c.plan, c.layout, lone_program(c.plan), {0});
  };
  EXPECT_EQ(state(0).others.optimizer, Bytes(12 * 1350));
  EXPECT_EQ(state(1).others.optimizer, Bytes(12 * 1350 / 8.0));
  EXPECT_EQ(state(1).others.gradients, Bytes(5400));
  EXPECT_EQ(state(1, true).others.optimizer, Bytes(0));
  // All gradients fit into one bucket, which is reduced as a whole.
  EXPECT_EQ(state(2).others.gradients, Bytes(5400 / 8.0 + 5400));
  // Blocks: two of three are gathered, and two wait for their reduction.
  EXPECT_EQ(state(3).gathered_parameters, Bytes(2 * 900));
  EXPECT_EQ(state(3).others.parameters, Bytes(2700 / 8.0 + 2 * 900));
  EXPECT_EQ(state(3).others.gradients, Bytes(5400 / 8.0 + 2 * 1800));
}

TEST(TrainingState, AMasterCopyInTheStoredFormatIsNone) {
  Case c(0);
  c.plan.precision.master_weights = Precision::bf16;
  const StepProgram program = lone_program(c.plan);
  EXPECT_EQ(training_state(c.plan, c.layout, program, {0}).others.optimizer, Bytes(8 * 1350));
  c.plan.precision.gradient_reduce = Precision::bf16;  // and copies of two units, here of the one there is
  EXPECT_EQ(training_state(c.plan, c.layout, program, {0}).others.gradients, Bytes(5400 + 2 * 1350));
}

// Training on pairs of answers (DPO): the forward passes of a reference model, and what it holds and gathers.

constexpr double parameters_of_llama = 8030261248;
constexpr std::int64_t length = 1024, pairs = 2;  // of a micro-batch

// Eight GPUs, each with a micro-batch of two pairs.
Plan preferred(const std::vector<std::string>& overrides) {
  const std::string text =
      "[model]\nconfig = \"llama-3-8b.json\"\n[cluster]\ntopology = \"t\"\ngpus = 8\n[batch]\nsequence_length = 1024\n"
      "micro_batch_size = 4\nglobal_batch_size = 32\n[training]\nobjective = \"dpo\"\n";
  return read_plan(text, "p.toml", overrides).value();
}

struct Compiled {
  Plan plan;
  Layout layout;
  StepProgram program;
  explicit Compiled(const std::vector<std::string>& overrides, const std::string& model = "llama-3-8b")
      : plan(preferred(overrides)),
        layout(make_layout(plan, architecture(model)).value()),
        program(compile(plan, architecture(model), layout).value()) {}

  const Graph& block(const Segment& segment) const { return program.blocks[segment.block]; }
  // Returns the FLOPs of the reference model in the slots of a type, and in others of the policy.
  double flops_of(OpType type, bool reference) const {
    double sum = 0;
    for (const SlotTemplate& slot : program.templates)
      for (const Segment& segment : slot.segments)
        for (const std::uint16_t op : segment.operators)
          if (slot.type == type && block(segment).reference == reference)
            sum += segment.share * flops(block(segment), block(segment).operators[op], 1, false).value();
    return sum;
  }
  double held_parameters() const {
    const TrainingState state = training_state(plan, layout, program, {0});
    return (state.others.parameters - state.gathered_parameters).value();
  }
};

const std::vector<std::string> precomputed = {"training.reference=precomputed"};

// A forward pass has a third of the FLOPs of training, over two sequences of each pair.
TEST(Preferences, AReferenceModelHasOneForwardPassOverBothAnswers) {
  const Compiled with({}), without(precomputed);
  const double tokens = 2 * pairs * length;
  const double forward = tokens * model_metrics(architecture("llama-3-8b"), length).flops_per_token / 3;
  EXPECT_NEAR(with.flops_of(OpType::F, true), forward, 1e-3 * forward);
  EXPECT_NEAR(with.flops_of(OpType::F, false), forward, 1e-3 * forward);
  EXPECT_EQ(with.flops_of(OpType::B, true), 0);
  EXPECT_EQ(with.flops_of(OpType::F, false), without.flops_of(OpType::F, false));
  EXPECT_EQ(without.flops_of(OpType::F, true), 0);
}

// The pass of next tokens over as many sequences is what is left where log-probabilities are there before the training.
TEST(Preferences, WithoutAReferenceModelAreAnUpdateOfTwiceTheSequences) {
  const Compiled pairs_alone(precomputed), sequences({"training.objective=next-token"});
  EXPECT_EQ(pairs_alone.program.blocks.size(), sequences.program.blocks.size());
  for (const OpType type : {OpType::F, OpType::B})
    EXPECT_EQ(pairs_alone.flops_of(type, false), sequences.flops_of(type, false));
  EXPECT_EQ(pairs_alone.held_parameters(), sequences.held_parameters());
}

// A copy of all weights in 16 bits, sharded as the policy's are.
TEST(Preferences, AReferenceModelIsACopyOfTheWeights) {
  for (const char* stage : {"parallelism.zero_stage=1", "parallelism.zero_stage=3"}) {
    const double shards = std::string(stage).ends_with('3') ? 8 : 1;
    const Compiled with({stage}), without({stage, precomputed.front()});
    EXPECT_NEAR(with.held_parameters() - without.held_parameters(), 2 * parameters_of_llama / shards, 1e4) << stage;
    const auto state = [](const Compiled& c) { return training_state(c.plan, c.layout, c.program, {0}); };
    EXPECT_EQ(state(with).others.optimizer.value(), state(without).others.optimizer.value());
    EXPECT_EQ(state(with).counts.updated, state(without).counts.updated);
  }
}

// Next to adapters it is the policy without them, which FSDP gathers for its pass, too.
TEST(Preferences, NextToAdaptersAReferenceModelHasNoCopy) {
  for (const char* stage : {"parallelism.zero_stage=0", "parallelism.zero_stage=3"}) {
    const Compiled with({"training.method=lora", stage}), without({"training.method=lora", stage, precomputed.front()});
    EXPECT_EQ(with.held_parameters(), without.held_parameters()) << stage;
    for (const Graph& block : with.program.blocks)
      for (const Operator& op : block.operators)
        if (block.reference) {
          EXPECT_THAT(op.name, testing::Not(HasSubstr("_adapter")));
        }
  }
  // 32 layers, the embedding and the head; and the policy's head, whose backward no longer follows its forward at once.
  const auto gathers = [](const Compiled& compiled) {
    return std::ranges::count(compiled.program.data_parallel[0], DataParallelCollectives::Kind::gather,
                              &DataParallelCollectives::kind);
  };
  for (const char* method : {"training.method=lora", "training.method=full"}) {
    const Compiled with({method, "parallelism.zero_stage=3"}),
        without({method, "parallelism.zero_stage=3", precomputed.front()});
    EXPECT_EQ(gathers(with) - gathers(without), 32 + 2 + 1) << method;
  }
}

// Trainers evaluate it, whatever the policy drops out.
TEST(Preferences, AReferenceModelDropsNothingOut) {
  const Compiled compiled({}, "gpt2-xl");
  const auto drops_out = [](const Operator& op) {
    const auto* attention = std::get_if<AttentionAttributes>(&op.attributes);
    return op.kind == OperatorKind::dropout || (attention != nullptr && attention->dropout > 0);
  };
  std::ptrdiff_t policy = 0, reference = 0;
  for (const Graph& block : compiled.program.blocks)
    (block.reference ? reference : policy) += std::ranges::count_if(block.operators, drops_out);
  EXPECT_GT(policy, 0);
  EXPECT_EQ(reference, 0);
}

// What a reference model computes is not kept.
TEST(Preferences, AReferenceModelKeepsNoActivations) {
  const Compiled with({}), without(precomputed);
  const auto kept = [](const Compiled& compiled) {
    const auto forward = std::ranges::find(compiled.program.templates, OpType::F, &SlotTemplate::type);
    return slot_memories(compiled.program)[static_cast<std::size_t>(forward - compiled.program.templates.begin())].kept;
  };
  EXPECT_EQ(kept(with).value(), kept(without).value());
}

TEST(Preferences, AreOfWholePairs) {
  const auto refused = [](const std::vector<std::string>& overrides) {
    const auto layout = make_layout(preferred(overrides), architecture("llama-3-8b"));
    return layout ? "" : to_string(layout.error());
  };
  EXPECT_EQ(refused({}), "");
  EXPECT_THAT(refused({"batch.micro_batch_size=1"}), HasSubstr("1 sequences are no whole pairs of answers"));
  EXPECT_EQ(refused({"batch.micro_batch_size=1", "batch.document_length=256"}), "") << "packed";
  const auto warnings = [](const std::vector<std::string>& overrides) {
    const Plan plan = preferred(overrides);
    return layout_warnings(plan, make_layout(plan, architecture("llama-3-8b")).value());
  };
  EXPECT_THAT(warnings(precomputed), testing::IsEmpty());
  EXPECT_THAT(warnings({"training.objective=next-token", precomputed.front()}),
              testing::ElementsAre(HasSubstr("training.reference has no effect")));
}

}  // namespace
}  // namespace plumbline::model
