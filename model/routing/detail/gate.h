// Which experts tokens choose where some experts are popular. A token's logit for an expert is the expert's popularity
// plus a standard normal number; the expert's score is the sigmoid or the softmax of it, to which the bias of balancing
// without an auxiliary loss is added before the best are chosen (arXiv 2408.15664), within the best groups of experts
// where the model limits them (arXiv 2412.19437, section 2.1.2).
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture/architecture.h"

namespace plumbline::model {

struct GateLoad {
  std::vector<double> share;             // [expert] of all choices; they add up to 1
  std::vector<double> popularity_slope;  // [expert] relative change of the share with the expert's own popularity
  std::vector<double> bias_slope;        // [expert] with its own bias
};

// Returns MaxVio of arXiv 2408.15664: the largest load over the mean, less 1.
double max_violation(const std::vector<double>& share);

class GateModel {
 public:
  // A token may use `groups_per_token` of the model's expert groups.
  GateModel(const MixtureOfExperts& experts, std::int64_t groups_per_token);

  // Returns the load of experts with these popularities and biases; an empty list is all zeros. The other experts'
  // numbers of 256 tokens are drawn from a fixed seed, the same at each call, and given them the chance of each
  // expert is exact: it is chosen where its own number is above a threshold. Shares have a standard error of about 1 %,
  // those of whole groups of 4 %.
  GateLoad load(const std::vector<double>& popularity, const std::vector<double>& bias) const;

  // Moves the biases by one step of balancing: by `rate`, down where the load is above the mean and up where it is
  // below. Returns the load before it.
  GateLoad balance(const std::vector<double>& popularity, double rate, std::vector<double>& bias) const;

 private:
  class Token;

  MixtureOfExperts experts_;
  std::int64_t groups_per_token_;
  std::vector<std::vector<double>> noise_;  // [token][expert]
};

}  // namespace plumbline::model
