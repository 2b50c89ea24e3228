// One cluster of one size as a place to train: its inputs, the search there, and the plans found.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/provenance.h"
#include "model/economics/ownership.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "sim/predict/simulate.h"
#include "sim/search/ranking.h"
#include "sim/search/recipe.h"
#include "sim/search/search.h"

namespace plumbline::sim {

// What is asked for. Empty cluster and 0 GPUs: as the plan says.
struct ClusterChoice {
  std::string cluster;  // the name of a topology or a file
  std::string profile;  // cost profile; empty: the cluster's own
  std::int64_t gpus = 0;
};

// Every cluster with every number of GPUs, clusters first, each choice once. `cluster` may name its cost profile:
// "h100-dgx:h100-public".
model::Result<std::vector<ClusterChoice>> cluster_choices(const std::vector<std::string>& clusters,
                                                          const std::vector<std::int64_t>& gpus);

struct RankedPlan {
  model::Plan plan;
  model::StepResult result;  // by events
  PlanCost cost;
};

struct ClusterOption {
  std::string cluster;
  std::int64_t gpus = 0;
  Inputs inputs;                   // its plan says what is not searched
  std::vector<std::string> notes;  // what was changed for this cluster
  std::optional<model::Error> error;
  std::optional<model::Parameter> uncertainty;  // of a step predicted with the profile
  SearchResult search;
  std::vector<RankedPlan> plans;  // that fit in memory, the fastest first
};

// Reads what a plan names: model, topology and profile.
using LoadInputs = std::function<model::Result<Inputs>(const model::Plan&)>;

// The recipe on that cluster, with overrides KEY=VALUE. What the recipe's own [cluster] says beside its topology, and
// its price, hold for that topology alone; FP8 becomes BF16 where the GPU has none, unless an override asks for it.
// Errors are input errors; a cluster that cannot be wired as large is infeasible.
model::Result<ClusterOption> load_option(const Recipe& recipe, const ClusterChoice& choice,
                                         const std::vector<std::string>& overrides, const LoadInputs& load);

// Searches and simulates the best 2 * top plans; fills search, plans and, where that fails, error. Plans beyond `top`
// are dropped. Wrong input is returned.
model::Result<void> search_option(ClusterOption& option, const SearchOptions& options);

// Days, GPU-hours and money of a step on the cluster.
PlanCost cost_of(const ClusterOption& option, const model::StepResult& result);

// The price of a GPU-hour, rented or owned as the plan says; or what is missing to know it.
model::Known<model::HourlyPrice> price_of(const ClusterOption& option);

// Forgets what the plan says of its own cluster and its price, but not what --set says of any, when it moves to another
// one. Returns the keys that it forgot.
std::vector<std::string> forget_cluster(model::Plan& plan);

}  // namespace plumbline::sim
