#include "sim/analysis/measured_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/architecture/metrics.h"
#include "model/memory/memory.h"
#include "model/program/compile.h"
#include "sim/interval/interval.h"
#include "sim/predict/simulate.h"
#include "tests/support/inputs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using enum MeasuredQuantity;
using model::ErrorKind;
using model::MeasuredVerdict;
using tests::expect_error;

struct Reading {
  const char* text;
  MeasuredQuantity quantity;
  double value;
};

TEST(MeasuredValue, IsReadWithItsUnit) {
  for (const auto& [text, quantity, value] :
       {Reading{"2.1s", seconds, 2.1}, Reading{"2100ms", seconds, 2.1}, Reading{"1.5 min", seconds, 90},
        Reading{"8.4s/it", seconds, 8.4}, Reading{"1.2Mtok/s", tokens_per_s, 1.2e6},
        Reading{"7800tok/s/GPU", tokens_per_s_per_gpu, 7800}, Reading{"7.8ktok/s/GPU", tokens_per_s_per_gpu, 7800},
        Reading{"230TFLOP/s", tflops, 230}, Reading{"61.25samples/s", samples_per_s, 61.25},
        Reading{"230TFLOP/s/GPU", tflops, 230}, Reading{"41%", mfu, 0.41}, Reading{"100%", mfu, 1}}) {
    const auto read = parse_measurement(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->step.given, text);
    EXPECT_EQ(read->step.quantity, quantity) << text;
    EXPECT_DOUBLE_EQ(read->step.value, value) << text;
    EXPECT_FALSE(read->peak_bytes);
  }
  EXPECT_DOUBLE_EQ(*parse_measurement("2s", "71GB")->peak_bytes, 71e9);
  EXPECT_DOUBLE_EQ(*parse_measurement("2s", "68000MiB")->peak_bytes, 68000.0 * 1024 * 1024);
}

struct Refusal {
  const char *text, *message, *hint;
};

TEST(MeasuredValue, IsRefusedWithWhatToWrite) {
  for (const auto& [text, message, hint] :
       {Refusal{"", "begins with no number", "2.1s"}, Refusal{"fast", "begins with no number", "35ms"},
        Refusal{"41", "'41' has no unit", "7800tok/s/GPU"},
        Refusal{"230TFLOPs", "unknown unit 'TFLOPs'", "did you mean 'TFLOPS'?"},
        Refusal{"71GB", "unknown unit 'GB'", "known: s, ms"}, Refusal{"0s", "not a finite number above 0", "2.1s"},
        Refusal{"-3s", "not a finite number above 0", "2.1s"}, Refusal{"infs", "not a finite number above 0", "2.1s"},
        Refusal{"410%", "above the peak", "TFLOP/s"}}) {
    const auto read = parse_measurement(text);
    expect_error(read, ErrorKind::input, "--measured", message);
    expect_error(read, ErrorKind::input, "--measured", hint);
  }
  expect_error(parse_measurement("2s", "71TFLOP/s"), ErrorKind::input, "--measured-memory");
}

// 20 s at 400 TFLOP/s and an MFU of 0.4, or 300 with causal attention.
model::StepTimes twenty_seconds() {
  model::StepTimes step;
  step.time_s = 20;
  step.model_tflops_per_gpu = 400;
  step.model_tflops_per_gpu_causal = 300;
  step.mfu = 0.4;
  return step;
}

void expect_conventions(const std::vector<model::RateConvention>& found,
                        const std::vector<model::RateConvention>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].name, expected[i].name);
    EXPECT_NEAR(found[i].time_s, expected[i].time_s, 1e-9) << found[i].name;
  }
}

// 300 TFLOP/s are those of the step with causal attention. A step at 400 takes 20 * 400 / 300 s, and a quarter longer
// where the given rate counts recomputation.
TEST(RateConventions, TheOneNearestToThePredictionIsFirst) {
  const MeasuredValue rate = {"300TFLOP/s", tflops, 300};
  expect_conventions(rate_conventions(twenty_seconds(), rate, {.recomputed = 0.25, .recomputed_causal = 0.25}, 20),
                     {{"model FLOPs, causal attention", 20},
                      {"with recomputation, causal attention", 25},
                      {"model FLOPs, full attention", 80.0 / 3},
                      {"with recomputation, full attention", 100.0 / 3}});
  EXPECT_EQ(rate_conventions(twenty_seconds(), rate, {}, 26).front().name, "model FLOPs, full attention");
}

// An MFU of 0.2 is that of the step over twice the peak of BF16.
TEST(RateConventions, AnMfuMayBeOfAnotherPeak) {
  const MeasuredValue rate = {"20%", mfu, 0.2};
  expect_conventions(rate_conventions(twenty_seconds(), rate, {.peaks = {{"FP8", 2}}}, 20),
                     {{"model FLOPs, full attention, FP8 peak", 20},
                      {"model FLOPs, causal attention, FP8 peak", 15},
                      {"model FLOPs, causal attention, BF16 peak", 30},
                      {"model FLOPs, full attention, BF16 peak", 40}});
}

TEST(MeasuredVerdict, IsByQuantilesAndBound) {
  const model::Quantiles predicted = {8, 10, 13};
  EXPECT_EQ(measured_verdict(8, predicted, 6), MeasuredVerdict::as_predicted);
  EXPECT_EQ(measured_verdict(13, predicted, 6), MeasuredVerdict::as_predicted);
  EXPECT_EQ(measured_verdict(7.9, predicted, 6), MeasuredVerdict::faster);
  EXPECT_EQ(measured_verdict(13.1, predicted, 6), MeasuredVerdict::slower);
  EXPECT_EQ(measured_verdict(5.9, predicted, 6), MeasuredVerdict::impossible);
  EXPECT_EQ(measured_verdict(5.9, predicted, std::nullopt), MeasuredVerdict::faster);
}

// A step of llama-3-8b in closed form, with its interval.
struct Predicted {
  Inputs inputs;
  model::StepResult result;
};
Predicted predicted_llama(const std::vector<std::string>& overrides = {}) {
  Predicted llama{tests::wired_inputs(tests::llama_plan, "h800", overrides), {}};
  llama.result = simulate(llama.inputs, Fidelity::closed_form, false).value().result;
  llama.result.interval = interval_of(llama.inputs, llama.result, {.draws = 32}).value();
  return llama;
}

model::Result<model::MeasuredStep> measured(const Predicted& predicted, const Measurement& measurement) {
  return measured_step(predicted.inputs, predicted.result, measurement);
}

TEST(MeasuredStep, TheMiddleIsAsPredicted) {
  const Predicted predicted = predicted_llama();
  const double middle = predicted.result.interval->time_s.p50;
  const auto found = measured(predicted, {{"the middle", seconds, middle}, {}});
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->time_s, middle);
  EXPECT_DOUBLE_EQ(found->share_below, 0.5);
  EXPECT_EQ(found->verdict, MeasuredVerdict::as_predicted);
  EXPECT_TRUE(found->conventions.empty());
  EXPECT_TRUE(found->causes.empty());  // nothing is left to explain
  EXPECT_FALSE(found->memory);
}

// Rates of the result itself mean its step.
TEST(MeasuredStep, TokensAreThoseOfTheStep) {
  const Predicted predicted = predicted_llama();
  const model::StepTimes& step = predicted.result.step;
  const auto all = measured(predicted, {{"", tokens_per_s, step.tokens_per_s}, {}});
  const auto one = measured(predicted, {{"", tokens_per_s_per_gpu, step.tokens_per_s_per_gpu}, {}});
  const double samples = static_cast<double>(predicted.inputs.plan.batch.global_batch_size);
  EXPECT_NEAR(measured(predicted, {{"", samples_per_s, samples / step.time_s}, {}})->time_s, step.time_s, 1e-9);
  EXPECT_NEAR(all->time_s, step.time_s, 1e-9);
  EXPECT_NEAR(one->time_s, step.time_s, 1e-9);
}

// Without overlap gradients are reduced after the last slot, as the plan with that key predicts.
TEST(MeasuredStep, CausesAreTheLargestFirstAndOnItsSide) {
  const Predicted predicted = predicted_llama();
  const model::Quantiles& time = predicted.result.interval->time_s;
  const auto slower = measured(predicted, {{"", seconds, time.p90 * 3}, {}});
  ASSERT_EQ(slower->verdict, MeasuredVerdict::slower);
  ASSERT_FALSE(slower->causes.empty());
  EXPECT_LE(slower->causes.size(), 3u);
  EXPECT_TRUE(std::ranges::is_sorted(slower->causes, std::ranges::greater{}, &model::MeasuredCause::time_s));
  for (const model::MeasuredCause& cause : slower->causes) {
    EXPECT_GT(cause.time_s, time.p50) << cause.name;
    EXPECT_FALSE(cause.reaches) << cause.name;
  }
  const auto faster = measured(predicted, {{"", seconds, time.p50 * 0.99}, {}});
  ASSERT_FALSE(faster->causes.empty());
  for (const model::MeasuredCause& cause : faster->causes) {
    EXPECT_LT(cause.time_s, time.p50) << cause.name;
    EXPECT_TRUE(cause.reaches) << cause.name;
  }
}

TEST(MeasuredStep, BelowItsBoundNothingExplainsIt) {
  const Predicted predicted = predicted_llama();
  const auto found = measured(predicted, {{"", seconds, *predicted.result.bound_s * 0.9}, {}});
  EXPECT_EQ(found->verdict, MeasuredVerdict::impossible);
  EXPECT_TRUE(found->causes.empty());
}

TEST(MeasuredStep, MemoryIsHeldAgainstThePeak) {
  const Predicted predicted = predicted_llama();
  const double middle = predicted.result.interval->peak_bytes.p50;
  const auto found = measured(predicted, {{"", seconds, 6}, middle});
  ASSERT_TRUE(found->memory);
  EXPECT_DOUBLE_EQ(found->memory->share_below, 0.5);
  expect_error(measured(predicted, {{"", seconds, 6}, 710e9}), ErrorKind::input, "--measured-memory");
}

// An allocator's figures lack what is around it, which is predicted; nothing fits above the capacity.
TEST(MeasuredStep, WhatACounterOfMemoryLacksIsAdded) {
  const Predicted predicted = predicted_llama();
  const model::RankMemory& fullest = *model::fullest_rank(predicted.result.memory);
  const auto peak = [&](double bytes, model::MemoryCount counted) {
    return measured(predicted, {{"", seconds, 6}, bytes, counted})->memory.value();
  };
  EXPECT_DOUBLE_EQ(peak(fullest.segments_bytes, model::MemoryCount::reserved).peak_bytes, fullest.peak_bytes);
  EXPECT_DOUBLE_EQ(peak(fullest.allocated_bytes, model::MemoryCount::allocated).peak_bytes, fullest.peak_bytes);
  EXPECT_DOUBLE_EQ(peak(fullest.peak_bytes, model::MemoryCount::device).added_bytes, 0);
  const double capacity = predicted.result.memory.capacity_bytes;
  EXPECT_DOUBLE_EQ(peak(capacity - 1, model::MemoryCount::reserved).peak_bytes, capacity);
}

// The log's own rate counts what comes closest to its step: that of the causal rate here.
TEST(MeasuredStep, TheRateOfALogIsExplainedByItsTime) {
  const Predicted predicted = predicted_llama();
  const model::StepTimes& step = predicted.result.step;
  const model::MeasuredLog log{.format = "Megatron-LM", .steps = 9, .tflops = step.model_tflops_per_gpu_causal};
  const auto found = measured(predicted, {{"train.log", seconds, step.time_s}, {}, model::MemoryCount::device, log});
  ASSERT_TRUE(found->log && found->log->count);
  EXPECT_EQ(found->log->count->name, "model FLOPs, causal attention");
  EXPECT_DOUBLE_EQ(found->log->count->time_s, step.time_s);
  EXPECT_TRUE(found->conventions.empty());  // a time has none
}

TEST(MeasuredStep, NeedsAnInterval) {
  Predicted predicted = predicted_llama();
  predicted.result.interval.reset();
  expect_error(measured(predicted, {{"", seconds, 6}, {}}), ErrorKind::input, "--measured", "leave out --no-interval");
}

// All forward operators of a layer run again. A layer more adds its forward pass and twice that backward.
TEST(MeasuredStep, WholeLayersComputeTheirForwardPassAgain) {
  const Inputs inputs = tests::step_inputs(tests::llama_plan, "h800", {"recompute.policy=full"});
  const std::int64_t tokens = inputs.plan.batch.sequence_length;
  model::Architecture more = inputs.architecture;
  ++more.layers;
  const double layer = model::model_metrics(more, tokens).flops_per_token -
                       model::model_metrics(inputs.architecture, tokens).flops_per_token;
  const double again = model::recomputed_flops_per_token(inputs.architecture, tokens, model::BlockKind::dense_layer,
                                                         model::recompute_policy(inputs.plan), false);
  EXPECT_NEAR(again, layer / 3, 1e-6 * layer);
}

TEST(MeasuredStep, RatesMayCountWhatIsRecomputed) {
  const MeasuredValue rate = {"", tflops, 400};
  const auto without = measured(predicted_llama(), {rate, {}}),
             with = measured(predicted_llama({"recompute.policy=full"}), {rate, {}});
  EXPECT_EQ(without->conventions.size(), 2u);
  EXPECT_EQ(with->conventions.size(), 4u);
}

// Eight GPUs with 1,000 output tokens/s each in the middle, at 25 ms a token.
model::ServingResult example_deployment() {
  model::ServingResult result;
  result.tpot_s = 0.024;
  result.output_tokens_per_s_per_gpu = 1050;
  result.output_tokens_per_s = 8 * 1050;
  model::ServingInterval& interval = result.interval.emplace();
  interval.tpot_s = model::Quantiles{0.020, 0.025, 0.030};
  interval.output_tokens_per_s_per_gpu = model::Quantiles{800, 1000, 1250};
  interval.parts.push_back({.source = "the engine between steps", .share = 1});
  result.assumed.push_back({"stack.dispatcher", "dispatcher", "a", "b", "stack.dispatcher=b", "", 1.5});
  return result;
}

model::Result<MeasuredDeployment> measured_as(const std::string& text) {
  return measured_deployment(example_deployment(), TRY(parse_measured_deployment(text)));
}

TEST(MeasuredDeployment, ATimePerTokenLiesInItsInterval) {
  const MeasuredDeployment slow = measured_as("35ms").value();
  EXPECT_DOUBLE_EQ(slow.measured.time_s, 0.035);
  EXPECT_EQ(slow.measured.verdict, model::MeasuredVerdict::slower);
  ASSERT_EQ(slow.measured.causes.size(), 1U);  // the engine reaches 30 ms alone, the other dispatcher 37.5
  EXPECT_EQ(slow.measured.causes[0].name, "dispatcher b");
  EXPECT_NEAR(slow.measured.causes[0].time_s, 0.0375, 1e-12);
  EXPECT_EQ(slow.measured.causes[0].remedy, "--set stack.dispatcher=b");
  EXPECT_EQ(measured_as("22ms")->measured.verdict, model::MeasuredVerdict::as_predicted);
  EXPECT_EQ(measured_as("10ms")->measured.verdict, model::MeasuredVerdict::faster);
}

TEST(MeasuredDeployment, ARateMeansATimePerToken) {
  const MeasuredDeployment all = measured_as("8000tok/s").value(), one = measured_as("1ktok/s/GPU").value();
  EXPECT_DOUBLE_EQ(all.measured.time_s, 0.025);  // the middle
  EXPECT_DOUBLE_EQ(one.measured.time_s, all.measured.time_s);
  EXPECT_NEAR(all.measured.share_below, 0.5, 1e-9);
  EXPECT_TRUE(all.measured.causes.empty());
  EXPECT_DOUBLE_EQ(all.predicted.p10, 0.020);  // 1,250 tokens/s of a GPU
  EXPECT_DOUBLE_EQ(all.predicted.p90, 0.03125);
  EXPECT_EQ(measured_as("700tok/s/GPU")->measured.verdict, model::MeasuredVerdict::slower);
}

TEST(MeasuredDeployment, RefusesWhatIsNoFigureOfIt) {
  for (const char* text : {"41%", "8samples/s", "230TFLOP/s", "35", "35parsecs"})
    expect_error(parse_measured_deployment(text), ErrorKind::input, "--measured");
  model::ServingResult alone = example_deployment();
  alone.interval.reset();
  expect_error(measured_deployment(alone, parse_measured_deployment("35ms").value()), ErrorKind::input, "--measured");
}

}  // namespace
}  // namespace plumbline::sim
