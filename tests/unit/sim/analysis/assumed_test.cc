#include "sim/analysis/assumed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/predict/predictor.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

const model::AssumedKey* found_key(const std::vector<model::AssumedKey>& keys, const std::string& key) {
  const auto found = std::ranges::find(keys, key, &model::AssumedKey::key);
  return found == keys.end() ? nullptr : &*found;
}

// The shipped plan states neither formats nor recomputation. The ratio is that of two closed forms.
TEST(AssumedSoftware, MovesTheStepAsAPlanThatStatesIt) {
  const Inputs inputs = tests::step_inputs(tests::llama_plan, "h800");
  const auto keys = assumed_of_step(inputs).value();
  const model::AssumedKey* recomputation = found_key(keys, "recompute.policy");
  ASSERT_NE(recomputation, nullptr);
  EXPECT_EQ(recomputation->value, "none");
  EXPECT_EQ(recomputation->other, "full");
  EXPECT_EQ(recomputation->given_by, "");
  Predictor predictor(inputs);
  const Inputs full = tests::step_inputs(tests::llama_plan, "h800", {recomputation->setting});
  EXPECT_DOUBLE_EQ(recomputation->ratio,
                   predictor.closed_form(full.plan)->step.time_s / predictor.closed_form(inputs.plan)->step.time_s);
  const model::AssumedKey* gemm = found_key(keys, "precision.gemm");
  ASSERT_NE(gemm, nullptr);
  EXPECT_EQ(gemm->other, "fp8") << "an H800 lacks mxfp8";
  EXPECT_LT(gemm->ratio, 0.95);
}

TEST(AssumedSoftware, IsWhatMovesTheStepMostFirst) {
  const auto keys = assumed_of_step(tests::step_inputs(tests::llama_plan, "h800")).value();
  ASSERT_GE(keys.size(), 2u);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_GT(std::abs(keys[i].ratio - 1), 0.05) << keys[i].key;
    if (i > 0) {
      EXPECT_LE(std::abs(std::log(keys[i].ratio)), std::abs(std::log(keys[i - 1].ratio)));
    }
    EXPECT_EQ(found_key(keys, keys[i].key), &keys[i]) << "a key is there once";
  }
}

TEST(AssumedSoftware, IsNothingThatThePlanStates) {
  const auto keys =
      assumed_of_step(tests::step_inputs(tests::llama_plan, "h800", {"recompute.policy=none", "precision.gemm=bf16"}))
          .value();
  EXPECT_EQ(found_key(keys, "recompute.policy"), nullptr);
  EXPECT_EQ(found_key(keys, "precision.gemm"), nullptr);
}

// Two kinds of recomputation: without it, the plan does not fit.
TEST(AssumedSoftware, FitsInMemoryWhereThePlanDoes) {
  Inputs inputs = tests::step_inputs("deepseek-67b-512xh800", "h800", {"recompute.policy=full"});
  inputs.plan.places.erase("recompute.policy");
  EXPECT_EQ(found_key(assumed_of_step(inputs).value(), "recompute.policy"), nullptr);
}

TEST(AssumedSoftware, OfADeploymentMovesItsTimePerOutputToken) {
  const std::vector<std::string> plan = {"cluster.topology=h100-dgx", "cluster.gpus=8", "parallelism.pipeline=1",
                                         "inference.engine=vllm"};
  Inputs inputs = tests::step_inputs(tests::llama_plan, "h100", plan);
  const std::string stacks = tests::frozen("stacks");
  inputs.profile = model::with_stack(inputs.profile, model::load_stack(stacks + "/vllm.toml", stacks, "").value());
  const auto keys = assumed_of_deployment(inputs, 64).value();
  const model::AssumedKey* weights = found_key(keys, "inference.weights");
  ASSERT_NE(weights, nullptr);
  EXPECT_EQ(weights->value, "fp8");
  EXPECT_EQ(weights->other, "bf16");
  EXPECT_GT(weights->ratio, 1.05);
  inputs.plan.places["inference.weights"] = {"plan.toml", 1, ""};
  EXPECT_EQ(found_key(assumed_of_deployment(inputs, 64).value(), "inference.weights"), nullptr);
}

}  // namespace
}  // namespace plumbline::sim
