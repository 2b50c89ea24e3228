// A step on every GPU of the cluster (`--fidelity cluster`): each with its own speed, jitter and expert rows, drawn
// anew for every seed.
#pragma once

#include <cstdint>

#include "model/base/error.h"
#include "sim/predict/inputs.h"
#include "sim/predict/simulation.h"
#include "sim/step/recording.h"
#include "sim/tasks/watch.h"

namespace plumbline::sim {

// The bubble is taken apart for the first seeds, each of which is then run several times.
inline constexpr std::int64_t most_taken_apart = 8;

inline constexpr std::int64_t most_fleets = 1'000'000;

struct ClusterOptions {
  std::int64_t seeds = 8;
  std::uint64_t seed = 1;   // of the first
  bool by_kernels = false;  // segment by segment instead of whole slots
  Recording record;         // the timeline of these GPUs in the first seed, or of a sample
  // What is drawn.
  bool slow_ranks = true, jitter = true, imbalance = true;
  Watch watch = {};  // of its runs; seeds that were not finished when it stopped are left out
};

// Returns the mean step with its spread (StepResult::cluster). Seeds run in parallel; results are the same at any
// number of threads. Errors: those of simulate(); ErrorKind::interrupted where it was stopped before the first seed.
model::Result<Simulation> simulate_cluster(const Inputs& inputs, const ClusterOptions& options);

}  // namespace plumbline::sim
