#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "model/memory/memory.h"
#include "model/plan/layout.h"
#include "sim/predict/detail/parts_cache.h"
#include "sim/predict/predictor.h"
#include "sim/predict/simulate.h"
#include "sim/predict/stage_balance.h"
#include "tests/support/cost_models.h"
#include "tests/support/serving_inputs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::model {
namespace {

Device of_gpus(std::int64_t gpus) {
  Device device;
  device.host_gpus = gpus;
  return device;
}

TEST(HostMemory, SumsTheGpusOfAHost) {
  Plan plan;
  plan.cluster.gpus = 16;
  EXPECT_EQ(fullest_host(plan, of_gpus(8), {1, 2}), 16);        // eight GPUs of the second rank
  EXPECT_EQ(fullest_host(plan, of_gpus(8), {1, 2, 3, 4}), 28);  // four of the third, four of the fourth
  EXPECT_EQ(fullest_host(plan, of_gpus(16), {1, 2, 3, 4}), 40);
  EXPECT_EQ(fullest_host(plan, of_gpus(8), {0, 0}), 0);
}

Memory memory_of(const std::vector<std::string>& overrides) {
  const sim::Inputs inputs = tests::step_inputs(tests::llama_plan, "h800", overrides);
  const Layout layout = make_layout(inputs.plan, inputs.architecture).value();
  return memory(inputs.plan, layout, tests::program_of(inputs), inputs.cluster.device);
}

TEST(HostMemory, HoldsTheStatesOfAnOffloadedOptimizer) {
  EXPECT_EQ(memory_of({}).host_bytes, 0);
  const Memory there = memory_of({"offload.optimizer=true"}), here = memory_of({});
  for (std::size_t rank = 0; rank < here.ranks.size(); ++rank) {
    // Master weights and two moments in FP32, which are 12 of 16 bytes with the gradients of the update.
    EXPECT_NEAR(there.ranks[rank].host_bytes, here.ranks[rank].optimizer_bytes * 16 / 12, 1);
    EXPECT_EQ(there.ranks[rank].optimizer_bytes, 0);
  }
  EXPECT_EQ(there.host_capacity_bytes, 2048.0 * (1 << 30));
  EXPECT_TRUE(there.fits);
}

TEST(HostMemory, HoldsTheActivationsOfMicroBatchesInFlight) {
  const sim::Inputs inputs =
      tests::step_inputs(tests::llama_plan, "h800", {"parallelism.pipeline=4", "offload.activations=1"});
  const std::vector<double> waiting = waiting_on_host(inputs.plan, tests::program_of(inputs));
  ASSERT_EQ(waiting.size(), 4u);
  // Under 1F1B the second rank has three micro-batches in flight and the third two, with as many layers.
  EXPECT_GT(waiting[2], 0);
  EXPECT_NEAR(waiting[1] / waiting[2], 1.5, 1e-9);
}

TEST(HostMemory, DecidesWhetherThePlanFits) {
  sim::Inputs inputs = tests::step_inputs(tests::llama_plan, "h800", {"offload.optimizer=true"});
  inputs.cluster.device.host_memory = Bytes(1e9);
  const Layout layout = make_layout(inputs.plan, inputs.architecture).value();
  const Memory small = memory(inputs.plan, layout, tests::program_of(inputs), inputs.cluster.device);
  EXPECT_FALSE(small.fits);
  EXPECT_EQ(fit_of(small), Fit::does_not_fit);
  EXPECT_NE(infeasible_reason(small).find("a host needs"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::model

namespace plumbline::sim {
namespace {

using testing::HasSubstr;
using tests::llama_plan;

// Steps that train on pairs of answers take as long as the update of their sequences and a forward pass.

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

namespace plumbline::tests {
namespace {

using Counts = std::vector<std::int64_t>;

sim::Inputs balanced(std::vector<std::string> overrides, const std::string& plan = llama_plan) {
  overrides.insert(overrides.begin(), "schedule.layers_per_stage=balanced");
  return step_inputs(plan, "h800", overrides);
}

const Counts& counts_of(const sim::Inputs& inputs) { return inputs.plan.schedule.layers_per_stage.counts; }

// The head of Llama 3 8B has 2 * 128256 * 4096 FLOPs a token, as many as 2.1 of its layers with their attention, and
// takes a little less than 2 of them, since its GEMM is the largest: 7 layers with it are as long as 9, not 8.
TEST(StageBalance, TheStageOfTheHeadHasFewerLayers) {
  const sim::Inputs inputs = balanced({"parallelism.pipeline=4"});
  const model::SplitCosts costs = sim::split_costs(inputs.plan, inputs).value();
  EXPECT_GT(costs.last / costs.layers.front(), 1);
  EXPECT_LT(costs.last / costs.layers.front(), 2.1);
  EXPECT_EQ(counts_of(inputs), (Counts{8, 8, 9, 7}));
  EXPECT_TRUE(inputs.plan.schedule.layers_per_stage.found);
}

TEST(StageBalance, EveryLayerLiesOnAStage) {
  for (const char* kind : {"1f1b", "dualpipev", "zb-v"})
    for (const char* pipeline : {"2", "4", "8"}) {
      const sim::Inputs inputs =
          balanced({std::string("parallelism.pipeline=") + pipeline, std::string("schedule.kind=") + kind});
      const Counts& counts = counts_of(inputs);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), 32) << kind << " " << pipeline;
    }
}

// Layers that run twice forward cost 4 / 3, so that the head counts as fewer of them.
TEST(StageBalance, RecomputedLayersWeighMore) {
  const auto head_in_layers = [](const std::vector<std::string>& overrides) {
    const sim::Inputs inputs = balanced(overrides);
    const model::SplitCosts costs = sim::split_costs(inputs.plan, inputs).value();
    EXPECT_EQ(costs.layers.size(), 32u);
    return costs.last / costs.layers.front();
  };
  const double without = head_in_layers({});
  EXPECT_NEAR(head_in_layers({"recompute.policy=full"}), without * 3 / 4, 0.03 * without);
}

// What the blocks cost one by one adds up to the chunks that the prediction times, to a fiftieth.
TEST(StageBalance, CostsAddUpToTheChunksOfTheStep) {
  const sim::Inputs inputs = balanced({"parallelism.pipeline=4", "parallelism.zero_stage=0"});
  const model::SplitCosts costs = sim::split_costs(inputs.plan, inputs).value();
  const auto estimate = sim::Predictor(inputs).closed_form(inputs.plan).value();
  const auto middle = static_cast<std::size_t>(counts_of(inputs)[0]);
  double stage = 0;
  for (std::int64_t i = 0; i < counts_of(inputs)[2]; ++i) stage += costs.layers[middle + static_cast<std::size_t>(i)];
  const double chunks = *estimate.step.chunk_s[0] + *estimate.step.chunk_s[1];
  EXPECT_NEAR(stage, chunks, chunks / 50);
}

TEST(StageBalance, BalancedStagesAreNoSlowerThanEvenOnes) {
  for (const char* pipeline : {"2", "4", "8"}) {
    const std::string degree = std::string("parallelism.pipeline=") + pipeline;
    const sim::Inputs found = balanced({degree});
    const sim::Inputs even = step_inputs(llama_plan, "h800", {degree, "schedule.layers_per_stage=even"});
    EXPECT_LE(sim::Predictor(found).closed_form(found.plan)->step.time_s,
              sim::Predictor(even).closed_form(even.plan)->step.time_s)
        << pipeline;
  }
}

// DeepSeek-V3's own split is of 16 stages.
TEST(StageBalance, NumbersThatAnOverrideOutgrowsAreReplaced) {
  const sim::Inputs own = step_inputs(deepseek_plan, "h800");
  EXPECT_EQ(counts_of(own).size(), 16u);
  EXPECT_FALSE(own.plan.schedule.layers_per_stage.found);
  const sim::Inputs fewer = step_inputs(deepseek_plan, "h800", {"parallelism.pipeline=8"});
  EXPECT_EQ(counts_of(fewer).size(), 8u);
  const auto layout = model::make_layout(fewer.plan, fewer.architecture).value();
  const auto warnings = model::layout_warnings(fewer.plan, layout);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].find(
                "schedule.layers_per_stage has the 16 stages of another schedule: the 8 of this one are balanced"),
            0u);
}

// DualPipe's ranks hold two stages each, so that its numbers, which fit 1F1B as well, suit it badly.
TEST(StageBalance, NumbersOfAnotherScheduleAreReplaced) {
  const sim::Inputs own = step_inputs(deepseek_plan, "h800", {"schedule.kind=dualpipe"});
  EXPECT_EQ(counts_of(own), counts_of(step_inputs(deepseek_plan, "h800")));
  const sim::Inputs other = step_inputs(deepseek_plan, "h800", {"schedule.kind=1f1b"});
  EXPECT_TRUE(other.plan.schedule.layers_per_stage.found);
  const std::vector<std::string> kept = {"schedule.kind=1f1b",
                                         "schedule.layers_per_stage=[3,4,4,4,4,4,4,4,4,4,4,4,4,4,4,2]"};
  const sim::Inputs same = step_inputs(deepseek_plan, "h800", kept);
  EXPECT_EQ(counts_of(same), counts_of(own));
  EXPECT_LT(sim::Predictor(other).closed_form(other.plan)->step.time_s,
            0.9 * sim::Predictor(same).closed_form(same.plan)->step.time_s);
}

TEST(StageBalance, NumbersThatDoNotFitTheirOwnPlanAreRefused) {
  const sim::Inputs inputs =
      step_inputs(deepseek_plan, "h800", {"parallelism.pipeline=8", "schedule.layers_per_stage=[30, 31]"});
  const auto layout = model::make_layout(inputs.plan, inputs.architecture);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().key, "schedule.layers_per_stage");
}

TEST(StageBalance, OneStageAndEvenStagesHaveNoNumbers) {
  EXPECT_TRUE(counts_of(balanced({"parallelism.pipeline=1"})).empty());
  EXPECT_TRUE(counts_of(step_inputs(llama_plan, "h800", {"schedule.layers_per_stage=even"})).empty());
}

}  // namespace
}  // namespace plumbline::tests
