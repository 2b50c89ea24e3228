// A made-up but plausible step of a 16-rank DualPipe plan, for tests of reports. No number is a prediction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "model/result/result.h"
#include "model/result/timeline.h"

namespace plumbline::support {

inline constexpr std::int32_t example_ranks = 16;

inline model::Plan example_plan() {
  model::Plan plan;
  plan.model.config = "models/example-moe.json";
  plan.cluster.topology = "h800-rail-fat-tree";
  plan.cluster.gpus = 2048;
  plan.parallelism.pipeline = example_ranks;
  plan.parallelism.expert = 64;
  plan.parallelism.zero_stage = 1;
  plan.batch = {4096, 1, 15360};
  plan.schedule.kind = "dualpipe";
  plan.schedule.layers_per_stage.counts = {3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2};
  plan.precision.gemm = model::Precision::fp8;
  plan.recompute = {"selective", {"rmsnorm", "swiglu"}};
  plan.run.tokens = 14.8e12;
  plan.run.price_usd_per_gpu_hour = 2.0;
  plan.run.phases = {{"context_extension", 119000, "arXiv 2412.19437, table 1"}};
  return plan;
}

inline model::Parameter example_parameter(const std::string& name, double value, const std::string& unit,
                                          model::Evidence kind) {
  return {name, value, unit, kind, "a source <with> \"marks\" & more", std::nullopt};
}

inline model::StepResult example_result() {
  model::StepResult result;
  result.fidelity = "step";
  result.profile = "h800";
  result.device = "H800";
  model::StepTimes& step = result.step;
  step.time_s = 20.0;
  step.tokens_per_s = 3145728;
  step.tokens_per_s_per_gpu = 1536;
  step.model_tflops_per_gpu = 431.85;
  step.model_tflops_per_gpu_causal = 384.69;
  step.mfu = 0.4366;
  step.mfu_causal = 0.3889;
  step.bubble_s = 2.05;
  step.exposed_communication_s = 0.35;
  step.optimizer_s = 0.3;
  step.slots_s = {1.1, 2.0, std::nullopt, 0.5, 14.05};
  step.chunk_s = {0.0393, 0.0714, std::nullopt, 0.0333, 0.1327};
  step.slot_counts = {28, 28, 0, 15, 106};
  step.breakdown = {{"GEMM", 9.1},
                    {"attention", 3.2},
                    {"quantisation casts", 1.9},
                    {"other memory-bound", 1.6},
                    {"wait for transfers", 0.35},
                    {"launch gaps", 1.5},
                    {"optimizer", 0.3},
                    {"bubble", 2.05}};
  result.bound_s = 11.9;
  result.bound_by = "compute";
  result.bound_rank = 3;
  result.flops_at_peak_s = 8.5;
  result.lost = {{"bubble", 5.0, "more micro-batches"},
                 {"GEMM below best rate", 3.085, "larger products"},
                 {"launch gaps", 0.01, "fewer kernels"},
                 {"input", 0.005, "input.prefetch"}};
  result.run = model::RunCost{14.8e12, 235240, 54.5, 2.677e6, 5.354e6, 1.0, {}, 2.796e6, 5.592e6};
  result.run->ownership = "rent";
  result.run->rent.value = model::HourlyPrice{2, 1.5, 4, "published", "a list of prices", {}, {}};
  result.run->purchase.value = model::HourlyPrice{1.9, 1.2, 3.5, "assumed", "prices of parts", 1.8, 0.1};
  result.run->power_w.value = 1500;
  result.run->fabric = {2048, 96, 2048};
  result.run->fabric_usd = 11e6;
  result.run->phases = {{"pretraining", 2.677e6, "predicted", ""},
                        {"context_extension", 119000, "published", "arXiv 2412.19437, table 1"}};
  result.memory = {58e9, 84.94e9, true, {}};
  for (std::int64_t rank = 0; rank < example_ranks; ++rank) {
    const double held = static_cast<double>(17 - rank / 2) * 1e9;
    model::RankMemory memory;
    memory.rank = rank;
    memory.stages = {rank, example_ranks - 1 - rank};
    memory.parameters_bytes = 12e9;
    memory.gradients_bytes = 20e9;
    memory.optimizer_bytes = 6e9;
    memory.activations_bytes = held;
    memory.temporary_bytes = 2e9;
    memory.communication_bytes = 1e9;
    memory.peak_bytes = 41e9 + held;
    memory.largest = "activations";
    memory.peak_operator = "output of head in FB of micro-batches 3 and 1";
    result.memory.ranks.push_back(memory);
  }
  result.provenance = {
      {example_parameter("gemm.fp8.k_time", 3.3e-9, "s", model::Evidence::fitted), 0.45},
      {example_parameter("attention.forward_rate", 5.2e14, "FLOP/s", model::Evidence::measured), 0.16},
      {example_parameter("nvlink.rate", 1.34e11, "B/s", model::Evidence::published), 0.05},
      {example_parameter("memory.bandwidth", 3.35e12, "B/s", model::Evidence::datasheet), 0.08},
      {example_parameter("launch.gap", 2e-6, "s", model::Evidence::assumed), 0.075},
  };
  return result;
}

inline model::PredictionInterval example_interval() {
  model::PredictionInterval interval;
  interval.time_s = {19.0, 21.0, 24.0};
  interval.tokens_per_s = {2.6e6, 3e6, 3.3e6};
  interval.days = {51.7, 57.2, 65.3};
  interval.gpu_hours = {2.54e6, 2.81e6, 3.21e6};
  interval.cost_usd = {4.8e6, 5.9e6, 9.1e6};
  interval.peak_bytes = {56e9, 58e9, 61e9};
  interval.fits_probability = 0.998;
  interval.left_factor = 1.07;
  interval.left_rows = "531 steps of 5 sets";
  interval.draws = 128;
  interval.parts = {{"what is left", 0.5, "a step of your stack on 8 GPUs", 0.06},
                    {"all-to-all shapes", 0.2, "dispatch and combine at 20 SMs on two of your nodes", 0.1},
                    {"GEMM constants", 0.1, "GEMMs of this model in fp8 on one GPU", 0.11},
                    {"expert load", 0.08, "", std::nullopt},
                    {"power and silicon", 0.05, "", std::nullopt}};
  for (const char* source : {"host", "GEMM shapes", "attention shapes", "memory-bound shapes", "software stack"})
    interval.parts.push_back({source, 0.014, "", std::nullopt});
  return interval;
}

inline std::vector<std::string> example_rank_names() {
  std::vector<std::string> names;
  for (std::int32_t rank = 0; rank < example_ranks; ++rank)
    names.push_back("rank " + std::to_string(rank) + " (stages " + std::to_string(rank) + ", " +
                    std::to_string(example_ranks - 1 - rank) + ")");
  return names;
}

// Each rank has a warm-up of F, a body of FB with phases on two streams, a cool-down of B and W, and the optimizer. The
// first pair has the kernels of one phase. `body` is the number of pairs.
inline model::Timeline example_timeline(std::int32_t body = 20) {
  enum Name : std::uint32_t { F, B, W, FB, attention, dispatch, gemm, optimizer };
  constexpr std::int64_t ms = 1'000'000'000;  // in picoseconds
  model::Timeline timeline;
  timeline.names = {"F", "B", "W", "FB", "attn(F)", "dispatch(F)", "fp8_gemm \"q_a\"", "optimizer"};
  timeline.ranks = example_ranks;
  for (std::int32_t rank = 0; rank < example_ranks; ++rank) {
    std::vector<model::Span> slots, phases, kernels, transfers;
    std::int64_t now = rank * 40 * ms;
    const auto slot = [&](Name name, std::int64_t length, std::int32_t micro_batch) {
      slots.push_back({name, rank, model::Stream::compute, -1, micro_batch, now, length, 0});
      now += length;
    };
    for (std::int32_t i = 0; i < example_ranks - rank; ++i) slot(F, 40 * ms, i);
    for (std::int32_t i = 0; i < body; ++i) {
      // 133.000'000'7 ms: a length that is no whole number of nanoseconds.
      phases.push_back({attention, rank, model::Stream::compute, 4, i, now, 60 * ms + 700, 1});
      transfers.push_back({dispatch, rank, model::Stream::communication, 4, i, now + 5 * ms, 90 * ms, 1});
      if (i == 0) kernels.push_back({gemm, rank, model::Stream::compute, 4, i, now + 333, 60 * ms + 367, 2});
      slot(FB, 133 * ms + 700, i);
    }
    for (std::int32_t i = 0; i < rank + 1; ++i) slot(B, 75 * ms, i);
    for (std::int32_t i = 0; i < 4; ++i) slot(W, 30 * ms, i);
    slot(optimizer, 300 * ms, -1);
    timeline.end_ps = std::max(timeline.end_ps, now);
    for (const auto* group : {&slots, &phases, &kernels, &transfers})
      timeline.spans.insert(timeline.spans.end(), group->begin(), group->end());
  }
  return timeline;
}

}  // namespace plumbline::support
