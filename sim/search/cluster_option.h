// The clusters of a question, each of one size, as they are named on the command line.
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
#include "sim/goodput/campaign_answer.h"
#include "sim/predict/simulate.h"
#include "sim/search/ranking.h"
#include "sim/search/recipe.h"
#include "sim/search/search.h"

namespace plumbline::sim {

// A cluster to search. An empty cluster and 0 GPUs mean those of the plan.
struct ClusterChoice {
  std::string cluster;  // name of a topology, or a file
  std::string profile;  // cost profile; empty: the cluster's own
  std::int64_t gpus = 0;
  bool offered = false;                    // by --offer
  std::optional<double> usd_per_gpu_hour;  // of the offer; nothing: the cluster's own
  bool operator==(const ClusterChoice&) const = default;
};

// Returns every cluster with every number of GPUs, clusters first, each choice once. A cluster may name its own size
// and its cost profile: "h100-dgx@1024:h100-torch". Such a size must be among `gpus`, where there are any. Offers name
// their size and, where the cluster's own does not hold, their price: "h200-hgx:512@2.60". They take the place of
// clusters and sizes.
model::Result<std::vector<ClusterChoice>> cluster_choices(const std::vector<std::string>& clusters,
                                                          const std::vector<std::int64_t>& gpus,
                                                          const std::vector<std::string>& offers = {});

// One cluster of one size as a candidate for training: its inputs, the search on it, and the plans found.

struct RankedPlan {
  model::Plan plan;
  model::StepResult result;  // by events
  PlanCost cost;
  std::size_t twins = 0;  // other plans that were found with the same work, time and memory (are_twins())
};

struct ClusterOption {
  std::string cluster;
  std::int64_t gpus = 0;
  std::optional<double> offered_usd;  // price of a GPU-hour that was offered
  Inputs inputs;                      // its plan gives what is not searched
  std::vector<std::string> notes;     // changes made for this cluster, and warnings of its predictions
  std::optional<model::Error> error;
  SearchResult search;
  std::vector<RankedPlan> plans;  // those that fit with search.min_fit, fastest first
  std::vector<RankedPlan> edge;   // faster ones that fit with less, but at least with hardly_fits, fastest first
  std::vector<double> best_with;  // probabilities_best() of the plans; empty where there is nothing to compare
  std::optional<CampaignAnswer> campaign;  // of the first plan, where it has tokens and rates of failures are known
  std::string rates;                       // of its failures: the name of what they rest on
};

// Reads the model, topology and profile that a plan names.
using LoadInputs = std::function<model::Result<Inputs>(const model::Plan&)>;

// Returns the recipe on that cluster, with overrides KEY=VALUE. The recipe's own [cluster] keys other than the
// topology, and its price, apply to that topology alone. FP8 becomes BF16 where the GPU has none, unless an override
// sets it. Errors are input errors; a cluster that cannot be wired at this size is infeasible.
model::Result<ClusterOption> load_option(const Recipe& recipe, const ClusterChoice& choice,
                                         const std::vector<std::string>& overrides, const LoadInputs& load);

// Searches, simulates the best `top` plans, those at the edge and of as many more those that could be among the best,
// and keeps `top` of those that fit with search.min_fit, and some at the edge, with their intervals and draws. Fills
// search, plans and edge, or error if that fails. Returns input errors.
model::Result<void> search_option(ClusterOption& option, const SearchOptions& options);

// Keeps of the plans at the edge the few fastest that are faster than the first plan.
void keep_edge(ClusterOption& option);

// Searches the option (search_option()). Where no plan fits with search.min_fit, the plan is given the remedies of
// search.remedies, each on top of those before, until one does; by default it offloads the optimizer, then the
// activations too, and a fine-tuning gets gradients and moments in BF16. Where hosts do not hold what is offloaded, the
// remedies are also tried with less there, again with each further word. Notes of the option have what was changed;
// where nothing helps, it stays as asked. Returns input errors.
model::Result<void> search_with_remedies(ClusterOption& option, const SearchOptions& options);

// Returns days, GPU-hours and USD of a run with this step on the cluster, in the middle of its interval, if it has one.
PlanCost cost_of(const ClusterOption& option, const model::StepResult& result);

// Returns the price of a GPU-hour, rented or owned as in the plan, or the reason why it is not known.
model::Known<model::HourlyPrice> price_of(const ClusterOption& option);

// Returns whether an option of the command line sets the key.
bool asked(const model::Plan& plan, const char* key);

// Resets the plan's keys about its own cluster and price, except those set with --set, for a move to another cluster.
// Returns the keys that it reset.
std::vector<std::string> forget_cluster(model::Plan& plan);

}  // namespace plumbline::sim
