#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/memory/memory.h"
#include "model/program/compile.h"
#include "model/schedule/evaluate.h"
#include "model/schedule/schedule_table.h"
#include "sim/analysis/assumed.h"
#include "sim/analysis/bound.h"
#include "sim/analysis/memory_advice.h"
#include "sim/predict/memos.h"
#include "sim/predict/predictor.h"
#include "sim/step/step_end.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using Settings = std::vector<std::string>;
using tests::step_inputs;

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

// F = 1, B = 2; the last of four stages takes `last` times as long.
std::vector<double> class_seconds(const model::ScheduleTable& table, double last) {
  std::vector<double> seconds;
  for (const model::ScheduleTable::SlotClass& one : table.classes)
    seconds.push_back((one.type == model::OpType::F ? 1 : 2) * (std::max(one.f_stage, one.b_stage) == 3 ? last : 1));
  return seconds;
}

// 1F1B, P = 4, M = 8, F = 1, B = 2: every rank idles (P - 1)(F + B) = 9.
class Idle : public testing::Test {
 protected:
  const model::ScheduleKind& kind_ = *model::find_schedule("1f1b").value();
  const model::ScheduleTable table_ = model::make_schedule_table(kind_, {.ranks = 4, .micro_batches = 8}).value();
  const std::vector<double> seconds_ = class_seconds(table_, 1);
};

TEST_F(Idle, EqualStagesOnlyFillAndDrain) {
  const IdleTime idle = split_idle(table_, seconds_, 0, 0, 9);
  EXPECT_EQ(idle.point_to_point, 0);
  EXPECT_EQ(idle.uneven_stages, 0);
  EXPECT_EQ(idle.fill_and_drain, 9);
}

// A transfer of h occurs 3 times forth and 3 times back in fill and drain; in between the first rank also waits for
// gradients, and for the batches of its messages.
TEST_F(Idle, MessagesCountByWhatTheStepWouldBeWithoutThem) {
  const double hop = 0.1;
  double makespan = 0;
  model::run_table(
      table_, hop, [&](std::size_t i) { return seconds_[table_.ops[i].slot_class]; },
      [&](std::size_t, double, double end) { makespan = std::max(makespan, end); });
  const IdleTime idle = split_idle(table_, seconds_, hop, 0, makespan - 24);
  EXPECT_GE(idle.point_to_point, 6 * hop - 1e-12);
  EXPECT_NEAR(idle.fill_and_drain, 9, 1e-12);
  EXPECT_NEAR(idle.point_to_point + idle.bubble(), makespan - 24, 1e-12);
}

TEST_F(Idle, NoMoreIsFoundThanThereIs) {
  const IdleTime idle = split_idle(table_, seconds_, 0.1, 0, 0.05);
  EXPECT_EQ(idle.point_to_point, 0.05);
  EXPECT_EQ(idle.bubble(), 0);
}

// The last of four stages takes twice as long, and the others wait for it.
TEST(UnevenStages, TheOthersWait) {
  const model::ScheduleTable table =
      model::make_schedule_table(*model::find_schedule("1f1b").value(), {.ranks = 4, .micro_batches = 8}).value();
  const std::vector<double> seconds = class_seconds(table, 2);
  // Rank 0 works 24 of 3 F + 8 (2 F + 2 B) + 3 B = 3 + 48 + 6 = 57. Equal stages would take 5/4 each: 9 * 5/4 idle, and
  // 30 of work instead of 24.
  const IdleTime idle = split_idle(table, seconds, 0, 0, 33);
  EXPECT_NEAR(idle.fill_and_drain, 11.25, 1e-12);
  EXPECT_NEAR(idle.uneven_stages, 33 - 11.25, 1e-12);
}

// Two ranks end at 10 and 11 and check for 1; the agreement takes 2, a reduction ends at 12, a gather takes 3.
TEST(StepTail, TakesAwayOnePartAfterTheOther) {
  std::vector<RankWork> works(2);
  for (RankWork& work : works) work = {.check = 1, .agree = 2, .update = 4, .to_device = 0.5, .gather = 3};
  works[1].host_update = 4;
  works[0].host_update = 4;
  const std::vector<GradientsReady> ranks = {{10, 12, {}, {}}, {11, 0, {}, {}}};
  // 12 + 1 + 2 + 4 + 0.5 + 3
  ASSERT_DOUBLE_EQ(step_end(works, ranks, {}), 22.5);
  const StepTail tail = step_tail(works, ranks);
  EXPECT_DOUBLE_EQ(tail.gather, 3);
  EXPECT_DOUBLE_EQ(tail.host, 4.5);
  EXPECT_DOUBLE_EQ(tail.agree, 2);
  EXPECT_DOUBLE_EQ(tail.reduce, 1);  // checks end at 13 with it, at 12 without
  EXPECT_DOUBLE_EQ(tail.total(), 22.5 - 12);
}

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
