#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "sim/predict/detail/parts_cache.h"
#include "sim/predict/simulate.h"
#include "tests/support/cost_models.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using testing::HasSubstr;
using tests::llama_plan;

model::Result<Simulation> simulated(const Inputs& inputs) { return simulate(inputs, Fidelity::closed_form, false); }

// The plan on 64 H800 with a profile.
Inputs inputs_with(const std::string& profile, const std::vector<std::string>& overrides = {}) {
  return tests::step_inputs(llama_plan, profile, overrides);
}

std::string error_of(const Inputs& inputs) {
  const auto done = simulated(inputs);
  return done ? "" : to_string(done.error());
}

// Checks of numbers, on the inputs of a plan whose peak is 989 TFLOP/s.
class ResultGuard : public testing::Test {
 protected:
  Inputs inputs_ = inputs_with("h800");
  CostModels costs_ = tests::costs_of(inputs_);
  model::StepTimes step_ = simulated(inputs_).value().result.step;

  std::string estimate(double peak_bytes = 1e9) const {
    const auto checked = check_estimate({inputs_, inputs_.plan, costs_}, step_, peak_bytes);
    return checked ? "" : to_string(checked.error());
  }
  std::string limits(double step_s, double bound_s, double flops_at_peak_s) const {
    const auto checked = check_limits({inputs_, inputs_.plan, costs_}, step_s, bound_s, flops_at_peak_s);
    return checked ? "" : to_string(checked.error());
  }
};

TEST_F(ResultGuard, LetsAPredictionPass) {
  EXPECT_EQ(estimate(), "");
  EXPECT_EQ(limits(1, 0.9, 0.5), "");
  EXPECT_EQ(limits(1, 1 + 1e-10, 1 + 1e-10), "");
}

TEST_F(ResultGuard, TimesAreFiniteAndPositive) {
  for (const double seconds : {-1.0, 0.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    step_.time_s = seconds;
    EXPECT_THAT(estimate(), HasSubstr(std::isinf(seconds) ? "on h800-sxm a part of the step takes more seconds"
                                                          : "with profile h800 on h800-sxm the step takes"))
        << seconds;
  }
}

TEST_F(ResultGuard, PartsOfAStepAreNotNegative) {
  step_.slots_s[0] = -1e-3;
  EXPECT_THAT(estimate(), HasSubstr("slots of a rank take -0.001 s"));
}

TEST_F(ResultGuard, MemoryIsFinite) { EXPECT_THAT(estimate(std::nan("")), HasSubstr("the fullest rank holds nan B")); }

TEST_F(ResultGuard, NoStepIsFasterThanThePeak) {
  step_.model_tflops_per_gpu_causal = 988;
  EXPECT_EQ(estimate(), "");
  step_.model_tflops_per_gpu_causal = 1088;
  EXPECT_THAT(estimate(), HasSubstr("an MFU of 110.0 %: faster than the peak of 989 TFLOP/s"));
  inputs_.plan.precision.gemm = model::Precision::fp8;  // its peak is twice as high
  EXPECT_EQ(estimate(), "");
}

TEST_F(ResultGuard, NoStepIsBelowItsLimits) {
  EXPECT_THAT(limits(1, 1.1, 0.5), HasSubstr("the step takes 1 s and its lower bound is 1.1 s"));
  EXPECT_THAT(limits(1, std::nan(""), 0.5), HasSubstr("lower bound is nan s"));
  EXPECT_THAT(limits(1, 0.9, 1.2), HasSubstr("its FLOPs take 1.2 s at the device's peak"));
}

// Where nobody states a peak, a faster machine is one that its file understates.
TEST_F(ResultGuard, AnAssumedPeakGivesAWarning) {
  for (model::Parameter& parameter : inputs_.cluster.parameters)
    if (parameter.name == "device.bf16_peak") parameter.kind = model::Evidence::assumed;
  step_.model_tflops_per_gpu_causal = 1088;
  EXPECT_EQ(estimate(), "");
  EXPECT_EQ(limits(1, 0.9, 1.2), "");
  EXPECT_THAT(peak_warnings({inputs_, inputs_.plan, costs_}, 1, 1.2),
              testing::ElementsAre(HasSubstr("the assumed peak of h800-sxm")));
  EXPECT_THAT(peak_warnings({inputs_, inputs_.plan, costs_}, 1, 0.8), testing::IsEmpty());
}

TEST(ProfileOfAnotherDevice, WarnsAndStaysBelowThePeak) {
  const model::StepResult result = simulated(inputs_with("b200-datasheet")).value().result;
  EXPECT_THAT(result.warnings,
              testing::Contains(HasSubstr("profile b200-datasheet holds for b200-sxm, not for h800-sxm")));
  EXPECT_LT(result.step.mfu_causal, 1);
  EXPECT_TRUE(simulated(inputs_with("h800")).value().result.warnings.empty());
}

TEST(ProfileOfAnotherDevice, KernelsOfANewGpuOnAnOldOne) {
  const Inputs inputs = inputs_with(
      "h800", {"cluster.device=v100-sxm", "cluster.gpus=512", "parallelism.pipeline=4", "recompute.policy=full"});
  const model::StepResult result = simulated(inputs).value().result;
  EXPECT_THAT(result.warnings, testing::Contains(HasSubstr("holds for h800-sxm, not for v100-sxm")));
  EXPECT_LT(result.step.mfu_causal, 1);
  // What was capped is in the provenance.
  const auto row = std::ranges::find_if(result.provenance,
                                        [](const auto& entry) { return entry.parameter.name == "gemm.bf16.k_time"; });
  EXPECT_THAT(row->parameter.source, HasSubstr("bf16 peak of v100-sxm"));
  EXPECT_GT(row->share_of_step, 0);
}

TEST(ProfileOfAnotherDevice, AFormatThatTheDeviceLacksIsRefused) {
  for (const char* format : {"fp8", "fp8_tensor"})
    EXPECT_THAT(error_of(inputs_with(
                    "h800", {"cluster.device=v100-sxm", "cluster.gpus=512", std::string("precision.gemm=") + format})),
                HasSubstr(std::string("precision.gemm: v100-sxm states no peak of ") + format))
        << format;
}

TEST(ProfileOfAnotherDevice, AKernelThatTheDeviceLacksIsRefused) {
  Inputs inputs = inputs_with("h800", {"attention.kernel=flash2"});
  inputs.cluster.device.lacks = {"cudnn", "flash2", "mxfp8"};
  EXPECT_THAT(error_of(inputs), HasSubstr("attention.kernel: h800-sxm does not run flash2 attention"));
  EXPECT_THAT(error_of(inputs), HasSubstr("one of fused, flash3, triton, unfused"));
  inputs.plan.attention.kernel = "fused";
  EXPECT_THAT(simulated(inputs).value().result.warnings,
              testing::Contains(HasSubstr("neither FlashAttention nor cuDNN's attention")));
  inputs.plan.precision.gemm = model::Precision::mxfp8;
  EXPECT_THAT(error_of(inputs), HasSubstr("precision.gemm: h800-sxm multiplies nothing in mxfp8"));
}

TEST(ProfileOfAnotherDevice, AFormatOfAttentionThatNothingHasIsRefused) {
  EXPECT_THAT(error_of(inputs_with("h800", {"precision.attention=fp8"})),
              HasSubstr("precision.attention: profile 'h800' has no attention.fp8.forward_rate"));
  EXPECT_THAT(error_of(inputs_with("h800", {"precision.attention=fp8", "attention.kernel=flash2"})),
              HasSubstr("precision.attention: flash2 attention reads 16 bits"));
  EXPECT_THAT(error_of(inputs_with("h800", {"cluster.device=v100-sxm", "cluster.gpus=512", "precision.gemm=fp16",
                                            "precision.dispatch=fp16", "precision.attention=fp8"})),
              HasSubstr("precision.attention: v100-sxm lacks fp8"));
}

TEST(ProfileOfAnotherDevice, AHeadInAnotherFormatThanGemmsIsRefused) {
  EXPECT_THAT(error_of(inputs_with("h800", {"precision.head=mxfp8"})),
              HasSubstr("precision.head: it is as other GEMMs are, which are in bf16"));
}

TEST(ImpossibleConstants, FasterThanThePeakIsInfeasible) {
  Inputs inputs = inputs_with("h800");
  inputs.profile = inputs.profile.with_changes({{"gemm.*.k_time", 0.1}, {"attention.*_rate", 10}}).value();
  const auto done = simulated(inputs);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, model::ErrorKind::infeasible);
  EXPECT_THAT(to_string(done.error()),
              testing::AllOf(HasSubstr("h800 (changed)"), HasSubstr("h800-sxm"), HasSubstr("peak")));
}

// Events are counted in picoseconds of 64 bits, which a longer step overflows.
TEST(ImpossibleConstants, AStepOfYearsIsRefused) {
  for (const Fidelity fidelity : {Fidelity::closed_form, Fidelity::step}) {
    const auto long_sequences = simulate(inputs_with("h800", {"batch.sequence_length=1000000000"}), fidelity, false);
    ASSERT_FALSE(long_sequences);
    EXPECT_EQ(long_sequences.error().kind, model::ErrorKind::input);
    EXPECT_THAT(to_string(long_sequences.error()), HasSubstr("takes more seconds than events can count"));
  }
  const auto slow_network = simulate(inputs_with("h800", {"cluster.nic_gbps=1e-9"}), Fidelity::step, false);
  ASSERT_FALSE(slow_network);
  EXPECT_THAT(to_string(slow_network.error()), HasSubstr("too long for an event simulation"));
}

// A profile that no file was read for is checked where it meets the cluster.
TEST(ImpossibleConstants, AProfileMadeInCodeIsRefused) {
  Inputs inputs = inputs_with("h800");
  std::vector<model::Parameter> constants = inputs.profile.parameters();
  for (model::Parameter& constant : constants)
    if (constant.name == "memory.cast.bandwidth") constant.value = 0;
  inputs.profile = model::Profile("made", "", std::move(constants));
  EXPECT_THAT(error_of(inputs), HasSubstr("memory.cast.bandwidth: 0 TB/s is out of range"));
}

}  // namespace
}  // namespace plumbline::sim
