#include "sim/analysis/memory_advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/memory/memory.h"
#include "model/program/compile.h"
#include "sim/predict/memos.h"
#include "sim/predict/predictor.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using tests::step_inputs;
using Settings = std::vector<std::string>;

// Returns the peak with the settings given on the command line.
double peak(const std::string& plan, Settings overrides) {
  const Inputs inputs = step_inputs(plan, "h800", overrides);
  const model::Layout layout = model::make_layout(inputs.plan, inputs.architecture).value();
  const auto program = model::compile(inputs.plan, inputs.architecture, layout, spread_of(inputs)).value();
  return model::memory(inputs.plan, layout, program, inputs.cluster.device).peak_bytes;
}

double step_s(const Settings& overrides) {
  const Inputs inputs = step_inputs(tests::llama_plan, "h800", overrides);
  return Predictor(inputs).closed_form(inputs.plan)->step.time_s;
}

TEST(MemoryAdvice, ListsWhatFitsCheapestFirst) {
  const Settings given = {"batch.micro_batch_size=4"};
  const Inputs inputs = step_inputs(tests::llama_plan, "h800", given);
  const model::MemoryAdvice advice = memory_advice(inputs);
  ASSERT_GE(advice.fitting.size(), 2u);
  EXPECT_FALSE(advice.closest);
  EXPECT_TRUE(std::ranges::is_sorted(advice.fitting, {}, &model::MemoryChange::step_ratio));
  const double own_s = step_s(given);
  std::vector<Settings> found;
  for (const model::MemoryChange& change : advice.fitting) {
    found.push_back(change.settings);
    // Each peak and time is the one predicted with the same settings.
    Settings all = given;
    all.insert(all.end(), change.settings.begin(), change.settings.end());
    EXPECT_DOUBLE_EQ(change.peak_bytes, peak(tests::llama_plan, all));
    EXPECT_DOUBLE_EQ(change.step_ratio.value(), step_s(all) / own_s);
    // Without a stack what the allocator holds is no range, so the margin is what the peak leaves.
    EXPECT_NEAR(change.margin_bytes, inputs.cluster.device.memory.value() - change.peak_bytes, 1);
    EXPECT_NEAR(change.unused_high_bytes, change.unused_low_bytes, 1);
    EXPECT_GE(change.margin_bytes, 0);
  }
  EXPECT_NE(std::ranges::find(found, Settings{"batch.micro_batch_size=1"}), found.end());
  EXPECT_NE(std::ranges::find(found, Settings{"recompute.policy=full"}), found.end());
}

TEST(MemoryAdvice, StatesWhatAnAllocatorHoldsBeyondTheDevice) {
  // Recomputed MLPs fit only when the allocator returns segments: it would hold more than the device has.
  model::Plan plan = step_inputs(tests::llama_plan, "h800", {"batch.micro_batch_size=2"}).plan;
  plan.stack.name = "megatron-core-2025";
  const Inputs inputs = tests::inputs_of_plan(plan, "h800").value();
  const model::MemoryAdvice advice = memory_advice(inputs);
  const Settings settings = {"recompute.policy=selective", "recompute.operators=[\"mlp\"]"};
  const auto change = std::ranges::find(advice.fitting, settings, &model::MemoryChange::settings);
  ASSERT_NE(change, advice.fitting.end());
  const double capacity = inputs.cluster.device.memory.value();
  EXPECT_NEAR(change->peak_bytes, capacity, 1);
  EXPECT_GT(change->margin_bytes, 0);
  EXPECT_GT(change->unused_high_bytes - change->unused_low_bytes, change->margin_bytes);
  EXPECT_LT(change->allocated_bytes + change->unused_low_bytes + change->margin_bytes, capacity);
}

TEST(MemoryAdvice, NamesTheClosestWhenNothingFits) {
  // 405 billion parameters on 8 ranks of a pipeline: parameters and gradients alone are 300 GB a rank. Sharding them
  // over the 8 data-parallel ranks helps most, and is not enough.
  const Settings given = {"model.config=models/llama-3-405b.json", "parallelism.pipeline=8", "recompute.policy=full"};
  Inputs inputs = step_inputs(tests::llama_plan, "h800", given);
  const model::MemoryAdvice advice = memory_advice(inputs);
  EXPECT_TRUE(advice.fitting.empty());
  // It tries twice the pipeline, tensor and context ranks, ZeRO-2 and 3, BF16 for moments and for gradients, and half
  // or all activations or the optimizer on the host.
  EXPECT_EQ(advice.tried, 10u);
  ASSERT_TRUE(advice.closest);
  EXPECT_EQ(advice.closest->settings, Settings{"parallelism.zero_stage=3"});
  EXPECT_LT(advice.closest->peak_bytes, peak(tests::llama_plan, given));
  EXPECT_FALSE(advice.closest->step_ratio);
  EXPECT_LT(advice.closest->margin_bytes, 0);
  EXPECT_GT(advice.closest->peak_bytes, inputs.cluster.device.memory.value());
}

TEST(MemoryAdvice, OffloadsActivationsWhereTheLinkIsKnown) {
  // Four sequences at once keep too many bytes for a GPU, but few for the host.
  Inputs inputs = step_inputs(tests::llama_plan, "h800", {"batch.micro_batch_size=4", "offload.activations=0.5"});
  const auto offloads = [&inputs] {
    std::vector<Settings> found;
    for (const model::MemoryChange& change : memory_advice(inputs).fitting)
      if (change.settings[0].starts_with("offload.")) found.push_back(change.settings);
    return found;
  };
  EXPECT_EQ(offloads(), std::vector<Settings>{{"offload.activations=1"}});
  inputs.cluster.device.host_bandwidth = model::BytesPerSecond(0);
  EXPECT_TRUE(offloads().empty());
}

TEST(MemoryAdvice, OffloadsNoMoreThanTheHostHolds) {
  Inputs inputs = step_inputs(tests::llama_plan, "h800", {"offload.optimizer=true"});
  inputs.cluster.device.host_memory = model::Bytes(1e9);  // less than the states of eight GPUs
  const model::MemoryAdvice advice = memory_advice(inputs);
  const auto fits = [&](const std::string& setting) {
    return std::ranges::find(advice.fitting, Settings{setting}, &model::MemoryChange::settings) != advice.fitting.end();
  };
  EXPECT_TRUE(fits("offload.optimizer=false"));
  EXPECT_FALSE(fits("parallelism.zero_stage=3"));
}

TEST(MemoryAdvice, StoresParametersAsGemmsReadThemWhereTheSoftwareDoes) {
  const auto tried = [](const Settings& more, const std::vector<std::string>& formats = {"bf16", "fp8"}) {
    Settings all = {"precision.gemm=fp8_tensor", "precision.weight_cast=step", "batch.micro_batch_size=4"};
    all.insert(all.end(), more.begin(), more.end());
    Inputs inputs = step_inputs(tests::llama_plan, "h800", all);
    inputs.plan.software["precision.parameters"] = {"one", formats};
    return memory_advice(inputs).tried;
  };
  const std::size_t with = tried({});
  EXPECT_EQ(tried({"precision.parameters=fp8"}), with - 1);
  EXPECT_EQ(tried({}, {"bf16"}), with - 1);
  EXPECT_EQ(tried({"precision.gemm=bf16"}), with - 1);
  // Replicas keep 16 bits; sharding them over all is one more change instead.
  EXPECT_EQ(tried({"parallelism.zero_stage=0"}), with);
}

TEST(MemoryAdvice, AddsToTheOperatorsThatAreRecomputed) {
  const Inputs inputs = step_inputs(tests::deepseek_plan, "h800", {"recompute.operators=[\"rmsnorm\"]"});
  const model::MemoryAdvice advice = memory_advice(inputs);
  const Settings expected = {"recompute.operators=[\"rmsnorm\", \"mla_up_projection\"]"};
  EXPECT_TRUE(std::ranges::any_of(advice.fitting, [&](const auto& change) { return change.settings == expected; }));
}

}  // namespace
}  // namespace plumbline::sim
