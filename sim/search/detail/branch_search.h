// Statistics of a search: the number of plans removed by each rule, and the plan that came closest.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/layers/blocks.h"
#include "model/plan/layout.h"
#include "sim/predict/cost_models.h"
#include "sim/predict/inputs.h"
#include "sim/predict/predictor.h"
#include "sim/search/search.h"
#include "sim/search/space.h"

namespace plumbline::sim {

enum class Rule : std::uint8_t {
  states,    // memory: the states that a rank holds through the whole step exceed the GPU
  branch,    // time: the branch's blocks, spread evenly over the ranks, take too long
  schedule,  // time: the blocks in this schedule, with this split, take too long
  memory,    // memory: the fullest moment of a rank exceeds the GPU
  host,      // memory: what is offloaded exceeds the host
  slots,     // time: the schedule with the durations of its slots takes too long
  refused    // the plan cannot be simulated
};
inline constexpr std::size_t rules = 7;
bool on_memory(Rule rule);

// Returns "tensor 8, pipeline 16, zero 1, micro-batch 1, 1f1b, recompute full"; degrees of 1 are left out.
std::string describe(const model::Plan& plan);

struct Statistics {
  struct Closest {  // the plans that a rule removed, and the closest of them
    std::uint64_t plans = 0;
    double measure = std::numeric_limits<double>::infinity();
    std::string plan;
  };
  std::array<Closest, rules> by_rule;
  std::uint64_t evaluated = 0;

  // Counts removed plans. `measure` is bytes or seconds; smaller is closer. Only the closest so far calls plan().
  template <class MakePlan>
  void remove(Rule rule, std::uint64_t plans, double measure, const MakePlan& plan) {
    Closest& closest = by_rule[static_cast<std::size_t>(rule)];
    if (plans > 0 && measure < closest.measure) {
      closest.measure = measure;
      closest.plan = describe(plan());
    }
    closest.plans += plans;
  }
  // Returns empty statistics to which only plans that are closer than those removed here are the closest.
  Statistics rest() const;
  void refuse(const model::Plan& plan, const std::string& why);
  void add(const Statistics& other);

  std::uint64_t decided() const;
  // Returns the rules that removed plans, in the order in which they apply.
  std::vector<Removed> removed(const model::Device& device) const;
};

// The least memory that every rank holds through the whole step: parameters, gradients and optimizer states of its
// layers, the driver's context, workspaces and buffers of groups. It needs no slots. A plan needs more: tensors kept
// between forward and backward, gathered parameters, buckets, fragmentation.

// For one thread at a time; `inputs` must outlive the object.
class MemoryFloor {
 public:
  explicit MemoryFloor(const Inputs& inputs);

  struct Least {
    double gpu = 0;   // of the fullest rank
    double host = 0;  // of the fullest host, which has no less than the mean
  };
  // Returns the least bytes for each of the pipeline's splits. `plan` has the pipeline's degrees and schedule and a
  // ZeRO stage. The bytes of a block are those of model::training_state for a rank with this block alone, without
  // parameters that another block may own. Over the blocks of a rank they add up, so no rank has less than their sum.
  std::vector<Least> bytes(const model::Plan& plan, const Pipeline& pipeline);

 private:
  using States = std::map<model::BlockKind, Least>;  // of a rank, on its GPU and on its host

  Least block_bytes(model::BlockKind kind, const model::Plan& plan, const model::Layout& layout, States& states);
  const model::Graph& graph(model::BlockKind kind, const model::Plan& plan, const model::Layout& layout);

  const Inputs& inputs_;
  model::Device device_;  // with what the software holds
  std::vector<model::BlockKind> layer_kinds_;
  std::map<std::vector<std::int64_t>, model::Graph> graphs_;  // parameters and gradients only
  std::map<std::vector<std::int64_t>, States> states_;        // of one block of each kind, by sharding
};

// The search in one branch: first over all of its plans at once, then plan by plan.

// The identity of a row of the result: the numbers of [parallelism] in the order of the plan, then the schedule.
using Shape = std::vector<std::int64_t>;
Shape shape_of(const model::Plan& plan);

// The fastest plans of all shapes.
class Incumbents {
 public:
  explicit Incumbents(std::size_t top) : top_(top) {}

  // Keeps a plan and returns true if it is faster than the one of its shape; the first of equal ones stays.
  bool add(const Shape& shape, const Candidate& candidate);

  // Returns seconds: a slower plan of the shape is neither among the `top` fastest shapes nor the fastest of its own.
  double limit(const Shape& shape) const;
  // Returns the limit for shapes without a plan.
  double limit() const { return limit_; }
  // Returns at most `most` plans by step time; of equal ones the smaller shape is first.
  std::vector<Candidate> ranked(std::size_t most) const;

 private:
  std::size_t top_;
  double limit_ = std::numeric_limits<double>::infinity();   // step of the `top`-th best shape
  std::map<Shape, std::shared_ptr<const Candidate>> known_;  // every branch starts with a copy
};

// Those that surely fit in memory, and faster ones at the edge.
struct FoundSoFar {
  Incumbents sure, edge;

  bool add(const Shape& shape, const Candidate& candidate, bool surely) {
    if (surely) return sure.add(shape, candidate);
    return candidate.estimate.step.time_s < limit(shape, surely) && edge.add(shape, candidate);
  }
  double limit(const Shape& shape, bool surely) const {
    return surely ? sure.limit(shape) : std::min(sure.limit(shape), edge.limit(shape));
  }
};

// The state that all threads share. Only its memos change.
struct SearchScope {
  Inputs inputs;  // with a routing memo
  Inputs free;    // without shared links, for bounds: wiring only slows transfers down
  SearchOptions options;
  Space space;
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
