// The best deployment of one model on one cluster: degrees of its pools, prefill and decode apart or together and in
// which ratio, the tokens of a step, and the batch. docs/serving.md describes the space and what is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/instance.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "sim/predict/inputs.h"
#include "sim/search/cluster_option.h"
#include "sim/search/ranking.h"
#include "sim/search/search.h"
#include "sim/serving/serving.h"

namespace plumbline::sim {

// What predicts deployments (sim/serving/serving.h). Called from several threads.
struct DeploymentPredictor {
  std::function<model::Result<model::ServingResult>(const model::Plan&)> predict;
  std::function<model::Result<std::vector<model::ServingPoint>>(const model::Plan&)> frontier;  // empty: none is asked
};

// What a deployment should be best in, and what it must keep besides inference.max_ttft_s and max_tpot_s of the plan.
struct DeploymentGoal {
  Objective objective = Objective::throughput;
  std::optional<double> usd_per_gpu_hour;
  std::optional<double> most_usd_per_hour;  // of the whole deployment
  ServingMargin margin = {};                // of the predictor, on what limits are held against
};

struct RankedDeployment {
  model::Plan plan;             // that `serve` reads to the same result
  model::ServingResult result;  // without its frontier
  double value = 0;             // value_of()
  bool within = true;           // the limits
};

// Returns output tokens/s per GPU, seconds per output token, or output tokens per USD; nothing without a price. Tokens
// beyond inference.demand_output_tokens_per_day count for nothing.
std::optional<double> value_of(const model::Plan& plan, const model::ServingResult& result, const DeploymentGoal& goal);
// Returns whether a value is better than another; times per token are better when smaller.
bool better(Objective objective, double value, double other);
// Returns sentences without full stop about limits that a deployment does not keep, each with both numbers.
std::vector<std::string> broken_limits(const model::Plan& plan, const model::ServingResult& result,
                                       const DeploymentGoal& goal);

// A point of the frontier of all deployments: none has both a shorter TPOT and more tokens/s per GPU.
struct DeploymentPoint {
  model::ServingPoint point;
  model::Plan plan;
};

struct DeploymentSearchResult {
  std::vector<RankedDeployment>
      best;  // best first, one for each choice of degrees that decode; those within the limits first
  std::vector<DeploymentPoint> frontier;  // by growing TPOT
  // Where nothing keeps the limits: the deployments with the shortest TPOT and TTFT with one request in flight.
  std::optional<RankedDeployment> shortest_tpot, shortest_ttft;
  std::uint64_t space = 0;       // deployments: pools for both phases, and pairs of pools with their best ratio of GPUs
  std::uint64_t evaluated = 0;   // of those
  std::vector<Removed> removed;  // what was not evaluated, and what cannot serve
  bool complete = true;          // false: stopped before every deployment was decided
};

// Searches around the inputs' plan, which gives the model, the lengths, formats, engine and limits. For throughput and
// tokens per dollar a deployment takes as many requests as fit within the limits; for latency those of
// inference.concurrency. A concurrency that an option of the command line sets holds for each objective. The result
// does not depend on the number of threads. Errors: wrong input in the plan or the profile.
model::Result<DeploymentSearchResult> search_deployments(const Inputs& inputs, const DeploymentPredictor& predictor,
                                                         const DeploymentGoal& goal, const SearchOptions& options);

// The answer of `plan` about deployments that serve: each cluster option with its best ones, by rank.

struct DeploymentOption {
  ClusterOption on;  // its cluster, inputs, notes and error
  DeploymentGoal goal;
  DeploymentSearchResult search;
  // value_of() the best deployment in each draw, at its requests in flight. The same index is the same draw on every
  // cluster; empty: not drawn.
  std::vector<double> value_draws;
};

struct DeploymentAnswer {
  std::string name;                    // of the model or plan
  std::vector<std::string> overrides;  // given with --set
  Objective objective = Objective::throughput;
  std::optional<double> most_usd_per_hour;
  double confidence = 0.5;  // share of cases in which the limits of TPOT and TTFT hold
  std::vector<DeploymentOption> options;
  bool complete = true;            // false: stopped before everything was decided
  std::vector<std::size_t> order;  // indices of options with a deployment, the best first
  // In the order of `order`: the share of the draws in which the best deployment of each is the best of those that keep
  // the limits as predicted, of all where none does. Equal values share a draw. Empty where one has no draws.
  std::vector<double> best_with;

  const DeploymentOption& first() const { return options[order.front()]; }
  const RankedDeployment& best(std::size_t place) const { return options[order[place]].search.best.front(); }
};

// Searches an option under the goal of the answer, and gives the best deployment its interval; fills goal and search,
// or the error. With limits of times it searches twice: what the draws of the first best take longer than its
// components is kept of the limits the second time. What is listed, and the points of the frontier, keep the limits in
// the share of their own draws. Returns input errors.
model::Result<void> search_option(const DeploymentAnswer& answer, DeploymentOption& option,
                                  const SearchOptions& options);

// Fills `order` and `best_with`: options whose best deployment keeps the limits come first.
void rank(DeploymentAnswer& answer);

// Returns what would have to change where no deployment keeps the limits, as a sentence without full stop for each.
std::vector<std::string> what_would_do(const DeploymentAnswer& answer);

// Returns the degrees of a pool as engines name them: "TP8 PP2", "TP1 DP144 EP144+32 TBO" (32 redundant experts, two
// micro-batches).
std::string degree_words(const model::Instance& instance);
// Returns the degrees of both pools of a plan.
std::string deployment_words(const model::Plan& plan);

}  // namespace plumbline::sim
