// The fastest plans of one model on one cluster with a given number of GPUs: every valid combination of degrees,
// schedule, recomputation and overlap, cut by memory and by proven lower bounds, the rest ranked in closed form.
// With the batch and the GPUs given, days, GPU-hours and money all follow from the step time, so the fastest plan is
// the best by each of them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/base/error.h"
#include "sim/predict/inputs.h"
#include "sim/search/candidate.h"

namespace plumbline::sim {

struct SearchResult {
  std::vector<Candidate> best;   // by step time; at least `top` shapes where there are as many
  std::uint64_t space = 0;       // combinations in all
  std::uint64_t evaluated = 0;   // of them in closed form
  std::vector<Removed> removed;  // in the order in which the rules apply
  bool complete = true;          // false: stopped before every plan was decided
};

// `inputs.plan` gives what is not searched (model, cluster, batch, precision, routing) and in [search] the values that
// searched keys may take. Expert rows count as even (routing.imbalance and rows_per_rank are left to those who simulate
// the candidates, sim/predict/simulate.h): a run of the whole expert group for each distinct slot would take most of a
// search, and moves the plans of a search much alike. The result does not depend on the number of threads. An empty
// `best` is no error: `removed` says why. Errors: wrong input in the plan or the profile.
model::Result<SearchResult> search(const Inputs& inputs, const SearchOptions& options);

}  // namespace plumbline::sim
