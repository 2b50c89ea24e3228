// The search in one branch: first over all of its plans at once, then plan by plan.
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

// The state that all threads share. Only its memos change.
struct SearchScope {
  Inputs inputs;  // with a routing memo
  Inputs free;    // without shared links, for bounds: wiring only slows transfers down
  SearchOptions options;
  Space space;
  ScheduleOutlines outlines;
  SearchScope(const Inputs& given, const SearchOptions& options);
  bool stopped() const { return options.stopped && options.stopped(); }
  // Returns whether bounds on time cut plans. Their proofs do not cover copies of activations to the host and back.
  bool bounded() const { return !options.exhaustive && inputs.plan.offload.activations == 0; }
  // Return whether a peak fits with search.min_fit, and whether it may fit at all (model::hardly_fits), on the GPU and
  // on the host together. The draws of the plans that are kept decide exactly.
  bool fits_surely(const Peak& peak) const;
  bool may_fit(const Peak& peak) const;
};

// Plans of a branch with one pipeline, ZeRO stage and split, whose training states fit in memory.
struct PipelineChoice {
  const Pipeline* pipeline = nullptr;
  std::int64_t zero_stage = 0;
  const Split* split = nullptr;
};

// A branch without the plans whose states do not fit.
struct OpenBranch {
  const Branch* branch = nullptr;
  std::vector<PipelineChoice> pipeline_choices;
  double bound = 0;  // s, lower bound of all its plans
};

// A plan that was the best of its shape when it was evaluated, by the choices of its unit.
struct FoundPlan {
  std::size_t pipeline_choice = 0;
  std::int64_t sms = 0;
  PlanEstimate estimate;
};

struct Found {
  std::vector<FoundPlan> plans;  // in the order in which they were evaluated
  Statistics statistics;
  bool complete = true;  // false: stopped
};

// One worker per thread. `scope` must outlive it.
class SearchWorker {
 public:
  explicit SearchWorker(SearchScope& scope);

  // Removes plans whose states do not fit, adds them to `statistics`, and bounds the others.
  model::Result<OpenBranch> open(const Branch& branch, Statistics& statistics);

  SearchScope& scope() { return scope_; }
  Predictor& predictor() { return predictor_; }
  // Returns the cost models without shared links, or nullptr where the plan is infeasible.
  model::Result<const CostModels*> costs(const model::Plan& plan);

 private:
  model::Result<double> bound(const OpenBranch& open);

  SearchScope& scope_;
  Predictor predictor_;
  MemoryFloor floor_;
  std::map<std::vector<std::int64_t>, CostModels> costs_;
};

// Compares with tolerance, because a bound and the bounded value add the same numbers in different orders.
inline bool above(double bound, double limit) {
  constexpr double rounding = 1e-9;
  return bound * (1 - rounding) > limit;
}

}  // namespace plumbline::sim
