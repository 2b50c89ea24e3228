// The closed form and the event simulation evaluate one step program: they agree where nothing contends for SMs or
// links.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/base/random.h"
#include "sim/predict/simulate.h"
#include "tests/support/random_choice.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using tests::choice;

// Expert groups of one GPU need no all-to-all, so that no rank waits for tokens of another.
std::vector<std::string> random_settings(model::Random& random) {
  const std::string tensor = choice(random, {"1", "2", "4", "8"});
  return {"parallelism.tensor=" + tensor,
          std::string("parallelism.sequence=") + (tensor == "1" ? "false" : "true"),
          "parallelism.context=" + choice(random, {"1", "2"}),
          "parallelism.context_method=" + choice(random, {"ring", "all-gather", "all-to-all"}),
          "parallelism.pipeline=" + choice(random, {"1", "2", "4", "8"}),
          "parallelism.zero_stage=" + choice(random, {"0", "1"}),
          "schedule.kind=" + choice(random, {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipev"}),
          "recompute.policy=" + choice(random, {"none", "full"}),
          "precision.gemm=" + choice(random, {"bf16", "fp8", "fp8_tensor", "fp16", "tf32", "mxfp8"}),
          "attention.kernel=" + choice(random, {"fused", "unfused"}),
          "cluster.topology=h100-dgx"};
}

void expect_agreement(const std::vector<std::string>& common, std::uint64_t seed) {
  model::Random random(seed);
  int agreed = 0;
  for (int tried = 0; tried < 80; ++tried) {
    std::vector<std::string> settings = common;
    std::string text;
    for (std::string& setting : random_settings(random)) {
      text += setting + " ";
      settings.push_back(std::move(setting));
    }
    const Inputs inputs = tests::step_inputs("llama-3-8b-64xh800", "h100-public", settings);
    const auto events = simulate(inputs, Fidelity::step, false);
    if (!events) {
      EXPECT_EQ(events.error().kind, model::ErrorKind::infeasible) << text << to_string(events.error());
      continue;
    }
    const auto closed = simulate(inputs, Fidelity::closed_form, false);
    ASSERT_TRUE(closed) << text;
    const double expected = events->result.step.time_s;
    EXPECT_NEAR(closed->result.step.time_s, expected, 0.01 * expected) << text;
    ++agreed;
  }
  EXPECT_GE(agreed, 40) << "too few valid plans to say anything";
}

TEST(Fidelities, AgreeOnDenseModels) { expect_agreement({}, 11); }

TEST(Fidelities, AgreeOnOffloadedActivations) { expect_agreement({"offload.activations=0.5"}, 13); }

// Layers of Mamba-2 next to attention, whose context ranks send each other heads whatever attention does.
TEST(Fidelities, AgreeOnHybrids) {
  expect_agreement({"model.config=models/nemotron-3-nano-30b-a3b.json", "parallelism.expert=1"}, 14);
}

TEST(Fidelities, AgreeOnMixturesOfExperts) {
  expect_agreement({"model.config=models/mixtral-8x7b.json", "parallelism.expert=1"}, 12);
}

}  // namespace
}  // namespace plumbline::sim
