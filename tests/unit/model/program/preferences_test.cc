// Training on pairs of answers (DPO): the forward passes of a reference model, and what it holds and gathers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "model/architecture/metrics.h"
#include "model/cost/work.h"
#include "model/memory/memory.h"
#include "model/memory/slot_memory.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "tests/support/architectures.h"

namespace plumbline::model {
namespace {

using testing::HasSubstr;
using tests::architecture;

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
