// The fastest plans of one model on one cluster with a given number of GPUs. The space is every valid combination of
// degrees, schedule, recomputation and overlap. It is cut by memory and by proven lower bounds, and the rest is ranked
// in closed form. With the batch and the GPUs given, days, GPU-hours and money all follow from the step time, so the
// fastest plan is the best by each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/predict/inputs.h"
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

struct SearchResult {
  // By step time; at least `top` shapes where there are as many, of plans that fit with search.min_fit.
  std::vector<Candidate> best;
  std::vector<Candidate> edge;  // by step time; faster ones that fit in GPUs whose software needs no more than the plan
  std::uint64_t space = 0;      // number of plans
  std::uint64_t evaluated = 0;  // number of plans evaluated in closed form
  std::vector<Removed> removed;  // in the order in which the rules apply
  bool complete = true;          // false: stopped before every plan was decided
};

// `inputs.plan` gives everything that is not searched (model, cluster, batch, precision, routing) and, in [search], the
// values of searched keys. Expert rows count as even: a run of the whole expert group for each distinct slot would take
// most of the search, and changes all plans alike. Callers simulate the candidates with routing.imbalance and
// rows_per_rank (sim/predict/simulate.h). The result does not depend on the number of threads. An empty `best` is no
// error; `removed` has the reasons. Errors: wrong input in the plan or the profile; infeasible where the space is
// empty.
model::Result<SearchResult> search(const Inputs& inputs, const SearchOptions& options);

}  // namespace plumbline::sim
