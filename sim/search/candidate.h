// The options of a search, and its results for single plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "model/plan/plan.h"
#include "sim/predict/predictor.h"
#include "sim/search/choices.h"
#include "sim/tasks/tasks.h"

namespace plumbline::sim {

struct SearchProgress {
  std::uint64_t done = 0, total = 0;  // plans of the space that are decided
  double best_step_s = 0;             // 0: none found yet
};

struct SearchOptions {
  std::size_t top = 5;   // this many rows are exact and in order
  unsigned threads = 0;  // of this process; 0: one per core
  Breadth breadth = Breadth::complete;
  double sure_share = 1;  // of the bytes with which a plan counts as fitting surely, for what memory alone leaves open
  bool exhaustive = false;  // evaluates every plan that fits in memory, without bounds on time
  Tasks* tasks = &local_tasks();
  std::function<void(const SearchProgress&)> on_progress;  // one call at a time; may be empty
  std::function<bool()> stopped;                           // called often, from several threads; may be empty
};

// The number of faster plans that fit with less than search.min_fit, at the edge, which a search keeps.
inline constexpr std::size_t most_at_edge = 3;

// A plan and its closed form. Plans that differ only in tuning (communication SMs, split of layers, recomputation,
// virtual stages, micro-batch) have the same shape, and only the fastest of a shape is kept.
struct Candidate {
  model::Plan plan;
  PlanEstimate estimate;  // with even expert rows
};

// The rules that remove plans which hold too much at their fullest moment on the GPU, and of what is offloaded on the
// hosts.
inline constexpr const char* gpu_rule = "memory: the fullest rank exceeds the GPU";
inline constexpr const char* host_rule = "memory: what is offloaded exceeds the memory of the hosts";

// A rule that removed plans of the space.
struct Removed {
  std::string rule;         // "memory: states alone exceed the GPU"
  std::uint64_t plans = 0;  // number of plans that the rule removed
  std::string example;      // description of the plan that came closest; may be empty
};

}  // namespace plumbline::sim
