// What is published of how GPUs of one cluster differ: the priors behind the slowest GPU of a step, drawn fleets
// (sim/cluster/cluster_step.h) and intervals (sim/interval). Each is a row of
// calibrate/published/straggler_priors.toml, which has the source.
#pragma once

#include "model/base/provenance.h"
#include "model/base/statistics.h"
#include "model/plan/plan.h"

namespace plumbline::sim {

// Eight of ten values lie between low and high, half of them below the middle. Shares and factors, without unit.
struct Prior {
  double low = 0, middle = 0, high = 0;
  model::Evidence kind = model::Evidence::published;
  const char* what = "";
  const char* source = "";
};

// The standard deviation of the speed of tensor-parallel groups of one type over their mean: 0.2 to 0.5 % in jobs of 8
// and 64 GPUs, at most 0.5 to 1.1 % over 64 groups of a larger one (straggler.trace.rank_speed_cv and _128). It is that
// of silicon, temperature and power together. The 14 % that PRISM (arXiv 2510.15596) states as the largest spread at
// 64,000 GPUs is 1.7 % at the 8.3 deviations between the ends of as many normal draws.
inline constexpr Prior speed_deviation{
    .low = 0.002,
    .middle = 0.005,
    .high = 0.011,
    .what = "standard deviation of the speed of GPUs (silicon, temperature and power together)",
    .source = "ByteDance-Seed/StragglerAnalysis, healthy ranks of jobs of 8 to 128 GPUs"};

// One forward or backward of a micro-batch: how far its 90th percentile is above the median of its rank
// (straggler.trace.op_jitter_p90).
inline constexpr Prior operation_p90{.low = 0.02,
                                     .middle = 0.025,
                                     .high = 0.03,
                                     .what = "a forward or backward of a micro-batch, 90th percentile above the median",
                                     .source = "ByteDance-Seed/StragglerAnalysis data/trace-AR"};

// Returns how much longer the slowest tensor-parallel group of a training is expected to compute than their mean. They
// are what was traced, and meet in every layer, slot or step:
//   1 + E(n) deviation of n groups, E(n) the expected largest of n standard normal numbers.
// Replicas that serve do not wait for each other: 1.
inline double slowest_gpu(const model::Plan& plan) {
  if (plan.inference.given) return 1;
  const double deviation = plan.cluster.speed_deviation.value_or(speed_deviation.middle);
  return 1 + deviation * model::expected_largest(plan.cluster.gpus / plan.parallelism.tensor);
}

// Machines that are slow all the time, and how much longer their GPUs take (straggler.megascale.*). The share is
// secondhand: its range is half of it to either side.
inline constexpr Prior slow_machines{.low = 0.0025,
                                     .middle = 0.005,
                                     .high = 0.0075,
                                     .what = "machines that are slow all the time",
                                     .source = "MegaScale, arXiv 2402.15627"};
inline constexpr Prior slow_machine_factor{.low = 1.05,
                                           .middle = 1.10,
                                           .high = 1.15,
                                           .what = "time of their kernels",
                                           .source = "MegaScale, arXiv 2402.15627"};

// Part of the time of a job in which one of its GPUs computes slowly, and how much longer that GPU takes: the delay of
// a job that waits for it (failslow.greyhound.compute_share and _delay). Both are secondhand.
inline constexpr Prior failslow_share{.low = 0.005,
                                      .middle = 0.01,
                                      .high = 0.02,
                                      .what = "steps in which one GPU of the job fails slow",
                                      .source = "Greyhound, ATC 2025"};
inline constexpr Prior failslow_factor{
    .low = 1.17, .middle = 1.346, .high = 1.52, .what = "time of its kernels", .source = "Greyhound, ATC 2025"};

}  // namespace plumbline::sim
