// The best deployment of one model on one cluster: degrees of its pools, prefill and decode apart or together and in
// which ratio, the tokens of a step, and the batch. docs/serving.md describes the space and what is cut.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "sim/predict/inputs.h"
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

}  // namespace plumbline::sim
