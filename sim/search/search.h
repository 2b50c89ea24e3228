// The fastest plans of one model on one cluster with a given number of GPUs: every valid combination of degrees,
// schedule, recomputation and overlap, cut by memory and by proven lower bounds, the rest ranked in closed form.
// With the batch and the GPUs given, days, GPU-hours and money all follow from the step time, so the fastest plan is
// the best by each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/predict/plan_evaluator.h"
#include "sim/predict/simulate.h"
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

struct SearchResult {
  std::vector<Candidate> best;   // by step time; at least `top` shapes where there are as many
  std::uint64_t space = 0;       // combinations in all
  std::uint64_t evaluated = 0;   // of them in closed form
  std::vector<Removed> removed;  // in the order in which the rules apply
  bool complete = true;          // false: stopped before every plan was decided
};

// `inputs.plan` gives what is not searched (model, cluster, batch, precision, routing) and in [search] the values that
// searched keys may take. Expert rows count as even (routing.imbalance and rows_per_rank are left to those who simulate
// the candidates, sim/search/top_plans.h): a run of the whole expert group for each distinct slot would take most of a
// search, and moves the plans of a search much alike. The result does not depend on the number of threads. An empty
// `best` is no error: `removed` says why. Errors: wrong input in the plan or the profile.
model::Result<SearchResult> search(const Inputs& inputs, const SearchOptions& options);

}  // namespace plumbline::sim
