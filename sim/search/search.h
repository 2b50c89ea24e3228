// The fastest plans of one model on one cluster with a given number of GPUs. The space is every valid combination of
// degrees, schedule, recomputation and overlap. It is cut by memory and by proven lower bounds, and the rest is ranked
// in closed form. With the batch and the GPUs given, days, GPU-hours and money all follow from the step time, so the
// fastest plan is the best by each of them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/base/error.h"
#include "sim/predict/inputs.h"
#include "sim/search/candidate.h"

namespace plumbline::sim {

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
