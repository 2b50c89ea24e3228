// How unevenly the tokens of a pass of inference choose experts, and what that does to the rows of experts and ranks.
// An expert's share of all choices is log-normal over the experts of a layer.
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/routing/rank_rows.h"

namespace plumbline::model {

struct ServedSkew {
  double low = 0, middle = 0, high = 0;  // standard deviation over the mean of the load of one expert
};

// Returns the skew of a model as it is served. Where biases balance it depends on how alike requests are: 0.24 over a
// mixture as in training (UltraEP, arXiv 2606.04101, figure 11, DeepSeek-V3; calibrate/published/straggler_priors.toml)
// to 1.36 over one data set (NVIDIA/TensorRT-LLM examples/wide_ep/ep_load_balancer/README.md, DeepSeek-R1: rows of
// ranks of eight experts vary by 491.65 / 1024, times the root of 8); the middle is their geometric mean. With an
// auxiliary loss auxiliary_variation(), half and twice that (assumed: no figures of such models as served).
ServedSkew served_skew(const MixtureOfExperts& experts);

// Returns how many experts of all ranks together, `redundant` copies of popular ones included, have rows of a pass,
// expected for `tokens` tokens that choose independently.
double experts_with_rows(const MixtureOfExperts& experts, std::int64_t redundant, double skew, double tokens);

// The rows of the ranks of an expert group. Copies are placed by load as EPLB does (balanced_experts).
class ServedRanks {
 public:
  ServedRanks(const MixtureOfExperts& experts, std::int64_t ranks, std::int64_t redundant, double skew);

  // Returns the rows of the fullest rank over the mean, expected for a pass of `tokens` tokens: the mean over layers of
  // a fixed seed, with the counting noise of so many choices.
  double fullest(double tokens) const;

 private:
  struct Layer {
    std::vector<double> load, noise;  // by expert: shares, and what counting one token adds to them
    ExpertPlacement placement;
  };
  std::vector<Layer> layers_;
};

}  // namespace plumbline::model
