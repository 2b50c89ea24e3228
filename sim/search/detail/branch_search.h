// What a search does with one branch: first with all of its plans at once, then one by one.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/predict/cost_models.h"
#include "sim/predict/inputs.h"
#include "sim/predict/predictor.h"
#include "sim/search/detail/incumbents.h"
#include "sim/search/detail/memory_floor.h"
#include "sim/search/detail/schedule_bound.h"
#include "sim/search/detail/statistics.h"
#include "sim/search/space.h"

namespace plumbline::sim {

// Shared by all threads; nothing in it changes but what it remembers.
struct SearchScope {
  Inputs inputs;  // with a routing memo
  Inputs free;    // the same where no link is shared, for bounds: wiring only ever makes transfers slower
  SearchOptions options;
  Space space;
  ScheduleOutlines outlines;

  SearchScope(const Inputs& given, const SearchOptions& options);
  bool stopped() const { return options.stopped && options.stopped(); }
  // Bounds on time cut plans. Copies of activations to the host and back are no part of their proofs.
  bool bounded() const { return !options.exhaustive && inputs.plan.offload.activations == 0; }
};

// Plans of a branch with one pipeline, ZeRO stage and split, whose training states fit.
struct PipelineChoice {
  const Pipeline* pipeline = nullptr;
  std::int64_t zero_stage = 0;
  const Split* split = nullptr;
};

// A branch with what of it is left when states have been looked at.
struct OpenBranch {
  const Branch* branch = nullptr;
  std::vector<PipelineChoice> pipeline_choices;
  double bound = 0;  // s, of all its plans
};

struct Found {
  Incumbents incumbents;
  Statistics statistics;
  bool complete = true;  // false: stopped
};

// One per thread. `scope` must outlive it.
class SearchWorker {
 public:
  explicit SearchWorker(SearchScope& scope);

  // Removes plans whose states do not fit, and bounds the others. statistics: theirs.
  model::Result<OpenBranch> open(const Branch& branch, Statistics& statistics);

  SearchScope& scope() { return scope_; }
  Predictor& predictor() { return predictor_; }
  // Where no link is shared. nullptr: there are none for this plan (infeasible).
  model::Result<const CostModels*> costs(const model::Plan& plan);

 private:
  model::Result<double> bound(const OpenBranch& open);

  SearchScope& scope_;
  Predictor predictor_;
  MemoryFloor floor_;
  std::map<std::vector<std::int64_t>, CostModels> costs_;
};

// Bounds and what they bound add the same numbers in different orders.
inline bool above(double bound, double limit) {
  constexpr double rounding = 1e-9;
  return bound * (1 - rounding) > limit;
}

}  // namespace plumbline::sim
