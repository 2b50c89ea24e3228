// Steps that train on pairs of answers take as long as the update of their sequences and a forward pass.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/serving_inputs.h"

namespace plumbline::sim {
namespace {

model::StepResult step_of(std::vector<std::string> overrides, Fidelity fidelity = Fidelity::closed_form) {
  const std::string text = R"([model]
config = "models/llama-3-8b.json"
[cluster]
topology = "h100-dgx"
gpus = 8
[batch]
sequence_length = 2048
micro_batch_size = 2
global_batch_size = 64
)";
  return simulate(tests::serving_inputs(text, "h100", overrides), fidelity, false).value().result;
}

// Without stages there is no bubble: what is added is the forward pass of the slots, four of a rank.
TEST(Preferences, AddAForwardPassToTheUpdate) {
  for (const char* method : {"training.method=full", "training.method=lora"}) {
    const auto update = step_of({method});
    const auto precomputed = step_of({method, "training.objective=dpo", "training.reference=precomputed"});
    EXPECT_EQ(precomputed.step.time_s, update.step.time_s);
    const double forward = step_of({"training.objective=next-token"}).step.slots_s[0].value();  // of the base
    const auto with = step_of({method, "training.objective=dpo"});
    EXPECT_NEAR(with.step.time_s - update.step.time_s, forward, 0.03 * forward) << method;
    EXPECT_NEAR(with.step.mfu * with.step.time_s, update.step.mfu * update.step.time_s, 1e-9) << "of the policy alone";
  }
}

// Of FSDP the reference model's shards are gathered; in a pipeline of two directions its pass has no partner.
TEST(Preferences, AreNeverBelowTheirBound) {
  for (const char* how : {"parallelism.zero_stage=3", "schedule.kind=dualpipe", "schedule.kind=1f1b"}) {
    std::vector<std::string> overrides = {how, "training.objective=dpo", "cluster.gpus=16", "recompute.policy=full"};
    if (std::string(how).starts_with("schedule")) overrides.emplace_back("parallelism.pipeline=4");
    for (const Fidelity fidelity : {Fidelity::closed_form, Fidelity::step}) {
      const auto with = step_of(overrides, fidelity);
      EXPECT_GE(with.step.time_s, with.bound_s.value()) << how;
      auto without = overrides;
      without.emplace_back("training.reference=precomputed");
      EXPECT_GT(with.step.time_s, 1.1 * step_of(without, fidelity).step.time_s) << how;
    }
  }
}

}  // namespace
}  // namespace plumbline::sim
