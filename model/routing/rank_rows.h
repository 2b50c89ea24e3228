// The rows that the ranks of an expert group compute, by layer and micro-batch, where a plan states what its experts
// receive: measured loads (routing.load_file) or a gate with popular experts (routing.skew).
//
// An expert's popularity has the deviation `skew`, in units of one token's own logits; two micro-batches share the part
// `correlation` of its variance. What they share is a property of the layer, which balancing acts on: an auxiliary loss
// shrinks it until loads vary by auxiliary_variation() at most; biases remove it up to the last step's rate, an error
// uniform between -rate and rate for each bias. The rest is drawn anew for each micro-batch and changes loads to first
// order of the logarithm. Tokens then choose independently: counts vary as without replacement, more between the
// experts of a group where a token uses few groups. Rows above the capacity of an expert are dropped.
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/routing/files.h"

namespace plumbline::model {

struct Plan;

// Returns the variation of the load of one of so many experts that an auxiliary loss leaves: MaxVio 0.72 above the mean
// of 64 experts (arXiv 2408.15664, table 2; calibrate/published/straggler_priors.toml) is 2.4 standard deviations of 64
// normal draws, 0.3. Published loads grow with the number of experts, 0.05 of 8 and 0.59 and 0.83 of 128
// (imbalance.* there), and none is larger than the last one.
double auxiliary_variation(std::int64_t experts);
inline constexpr double default_bias_rate = 0.001;  // per step, arXiv 2412.19437, section 4.2

bool states_expert_loads(const Plan& plan);

// Scales the values so that they add up to 1.
void scale_to_one(std::vector<double>& values);

class RankRows {
 public:
  // `plan` states loads and is one that make_layout() accepts; `layers` are those with experts that are asked for, the
  // model's prediction modules from the model's number of layers on. A seed gives popularities and draws.
  RankRows(const Plan& plan, const MixtureOfExperts& experts, const std::vector<std::int64_t>& layers,
           std::uint64_t seed);
  ~RankRows();

  // Writes the rows of each rank of an expert group in a layer, over those that a rank expects; `layer` is an index of
  // `layers`. Their mean is 1 where none are dropped. Safe to call from several threads.
  void draw(std::int64_t group, std::size_t layer, std::int64_t micro_batch, std::vector<double>& rows) const;

  // Returns the load of the layer's experts that micro-batches share; it adds up to 1.
  const std::vector<double>& shares(std::size_t layer) const;

 private:
  struct Layer;

  void make_layers(const Plan& plan, const std::vector<std::int64_t>& layers, std::uint64_t seed);
  void read_layers(const Plan& plan, const std::vector<std::int64_t>& layers);
  void find_counting();
  void place(const Plan& plan);
  void add_counting(std::uint64_t seed, std::vector<double>& load) const;

  MixtureOfExperts experts_;
  std::int64_t groups_per_token_;
  std::uint64_t seed_;
  double capacity_;              // most rows of an expert over their mean
  bool even_ = false;            // every expert is filled up to its capacity
  double fluctuation_ = 0;       // deviation of the popularity that each micro-batch has of its own
  double tokens_ = 0;            // of a micro-batch, of all ranks of the group
  double own_ = 0, shared_ = 0;  // deviations of the choices of a token: of each expert, of each group of experts
  std::vector<Layer> layers_;
};

// Returns the popularity of a layer's experts that micro-batches share, before any balancing; routing.skew is given.
std::vector<double> shared_popularity(const Plan& plan, const MixtureOfExperts& experts, std::int64_t layer,
                                      std::uint64_t seed);

inline constexpr std::uint64_t statistics_seed = 20241226;  // of what is printed about a plan

// Returns the deviation of the rows of ranks from what they expect, over layers and micro-batches of statistics_seed; 0
// where the plan does not state loads.
double deviation_of_rows(const Plan& plan, const MixtureOfExperts& experts);

// Which experts lie on which rank of an expert group.
struct ExpertPlacement {
  std::int64_t ranks = 1;
  std::vector<std::int32_t> experts;  // [rank * slots + slot]
  std::vector<std::int32_t> copies;   // [expert] ranks' slots that hold it; a token goes to one of them

  // Writes the load of each rank, where copies of an expert share its load.
  void rank_loads(const std::vector<double>& load, std::vector<double>& ranks_load) const;
};

// Returns the placement without copies: experts in order, the first ones on the first rank.
ExpertPlacement contiguous_experts(std::int64_t experts, std::int64_t ranks);

// Returns a placement of `redundant` more copies that evens out the ranks' load, by the steps of DeepSeek's EPLB
// (github.com/deepseek-ai/EPLB): again and again a copy of the expert with most load per copy, then copies in falling
// order of load, each on the least loaded rank that has a free slot. Where the ranks divide over `groups`, an expert
// stays on the ranks of its group, so that tokens reach no more nodes than without. The experts and their copies
// together divide over the ranks; where each of both does, the fullest rank has at most the load that it has without
// copies.
ExpertPlacement balanced_experts(const std::vector<double>& load, std::int64_t ranks, std::int64_t redundant,
                                 std::int64_t groups);

// How uneven the experts and ranks of a plan are, and how biases balance them step by step.
struct LoadSpread {
  double variation = 0;      // standard deviation over the mean
  double max_violation = 0;  // largest over the mean, less 1
};

struct RoutingStatistics {
  std::vector<LayerRows> loads;  // of the experts of each layer with experts, those that micro-batches share
  LoadSpread experts;            // of these loads, mean over layers
  LoadSpread ranks;              // of the rows of ranks in a layer and micro-batch, mean over both
  double dropped = 0;            // share of rows above the capacity of an expert
  struct Step {
    std::int64_t step = 0;  // 0: before the first change of a bias
    LoadSpread experts;
  };
  std::vector<Step> balance;  // of the first layer, from biases of 0 on; empty without balancing by biases
};

// Returns the statistics of a plan that states loads of experts and that make_layout() accepts, over layers and
// micro-batches of a fixed seed, with `steps` steps of balancing, of which 1, 2, 5, 10, 20, ... are listed.
RoutingStatistics routing_statistics(const Plan& plan, const Architecture& architecture, std::int64_t steps);

}  // namespace plumbline::model
