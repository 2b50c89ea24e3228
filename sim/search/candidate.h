// What a search is asked for, and what it says of single plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "model/plan/plan.h"
#include "sim/predict/predictor.h"
#include "sim/search/choices.h"

namespace plumbline::sim {

struct SearchProgress {
  std::uint64_t done = 0, total = 0;  // plans of the space that are decided, one way or another
  double best_step_s = 0;             // 0: none found yet
};

struct SearchOptions {
  std::size_t top = 10;  // so many rows are exact, in order
  unsigned threads = 0;  // 0: as many as cores
  Breadth breadth = Breadth::complete;
  bool exhaustive = false;  // no cut by bounds on time: every plan that fits in memory is evaluated
  std::function<void(const SearchProgress&)> on_progress;  // one call at a time; may be empty
  std::function<bool()> stopped;                           // asked often, from several threads; may be empty
};

// A plan and its closed form. Of plans that differ only in what tunes them (communication SMs, the split of layers,
// recomputation, virtual stages, micro-batch), which is called their shape, only the fastest is kept.
struct Candidate {
  model::Plan plan;
  PlanEstimate estimate;  // with even expert rows
};

// Why plans of the space are no candidates.
struct Removed {
  std::string rule;         // in words: "memory: states alone exceed the GPU"
  std::uint64_t plans = 0;  // combinations that it removed
  std::string example;      // the plan that came closest, in words; may be empty
};

}  // namespace plumbline::sim
