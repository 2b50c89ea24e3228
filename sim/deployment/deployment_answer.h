// The answer of `plan` about deployments that serve: each cluster option with its best ones, by rank.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/instance.h"
#include "sim/deployment/deployment_search.h"
#include "sim/search/cluster_option.h"

namespace plumbline::sim {

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
