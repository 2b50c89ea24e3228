#include "model/program/routing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "model/base/random.h"
#include "model/plan/plan.h"
#include "model/routing/rank_rows.h"

namespace plumbline::model {
namespace {

constexpr int drawn_tokens = 2048;
constexpr std::uint64_t routing_seed = 20250225;

// Moves the `count` indices with the largest scores to the front; ties go to the smaller index.
void select_best(std::vector<std::int64_t>& indices, std::int64_t count, const std::vector<double>& scores) {
  std::partial_sort(indices.begin(), indices.begin() + count, indices.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
}

double sigmoid(double logit) { return 1 / (1 + std::exp(-logit)); }

// The router: draws a token's logits and selects its experts. The sigmoid keeps the order of logits, so only the
// experts that enter a group's score need it. Buffers are reused between tokens.
class Gate {
 public:
  Gate(const MixtureOfExperts& experts, std::int64_t groups_per_token)
      : experts_(experts),
        groups_per_token_(groups_per_token),
        size_(experts.routed_experts / experts.groups),
        logits_(experts.routed_experts),
        group_scores_(experts.groups),
        groups_(experts.groups),
        best_(std::min<std::int64_t>(experts.group_score_experts, size_)) {}

  // Returns the selected experts, best first, followed by others.
  const std::vector<std::int64_t>& choose(Random& random) {
    for (double& logit : logits_) logit = random.normal();
    for (std::int64_t g = 0; g < experts_.groups; ++g) group_scores_[g] = group_score(g);
    std::iota(groups_.begin(), groups_.end(), 0);
    select_best(groups_, groups_per_token_, group_scores_);
    allowed_.clear();
    for (std::int64_t g = 0; g < groups_per_token_; ++g)
      for (std::int64_t i = 0; i < size_; ++i) allowed_.push_back(groups_[g] * size_ + i);
    select_best(allowed_, experts_.experts_per_token, logits_);
    return allowed_;
  }

 private:
  double group_score(std::int64_t group) {
    const auto members = logits_.begin() + group * size_;
    std::partial_sort_copy(members, members + size_, best_.begin(), best_.end(), std::greater<>());
    double score = 0;
    for (const double logit : best_) score += sigmoid(logit);
    return score;
  }

  const MixtureOfExperts& experts_;
  std::int64_t groups_per_token_;
  std::int64_t size_;  // experts of a group
  std::vector<double> logits_, group_scores_;
  std::vector<std::int64_t> groups_, allowed_;
  std::vector<double> best_;
};

// Returns the number of distinct values; reorders them.
double distinct(std::vector<std::int64_t>& values) {
  std::ranges::sort(values);
  return static_cast<double>(std::unique(values.begin(), values.end()) - values.begin());
}

}  // namespace

RoutingSpread routing_spread(const MixtureOfExperts& e, std::int64_t groups_per_token, std::int64_t expert_parallel,
                             std::int64_t ranks_per_node) {
  if (e.routed_experts == 0) return {};
  if (expert_parallel == 1) return {1, 1};
  const std::int64_t experts_per_rank = e.routed_experts / expert_parallel;
  Random random(routing_seed);
  Gate gate(e, groups_per_token);
  std::vector<std::int64_t> ranks(e.experts_per_token), nodes(e.experts_per_token);
  double ranks_total = 0;
  double nodes_total = 0;
  for (int token = 0; token < drawn_tokens; ++token) {
    const std::vector<std::int64_t>& chosen = gate.choose(random);
    for (std::int64_t i = 0; i < e.experts_per_token; ++i) {
      ranks[i] = chosen[i] / experts_per_rank;
      nodes[i] = ranks[i] / ranks_per_node;
    }
    ranks_total += distinct(ranks);
    nodes_total += distinct(nodes);
  }
  return {ranks_total / drawn_tokens, nodes_total / drawn_tokens};
}

RoutingBalance routing_balance(const Plan& plan, const MixtureOfExperts& experts) {
  // Of one expert. Scores by sigmoid go with biases that balance, the softmax with an auxiliary loss.
  const bool biased = experts.score == ScoreFunction::sigmoid;
  const double usual = biased ? 0.15 : auxiliary_variation(experts.routed_experts);
  const double most = biased ? 0.3 : 1.4 * usual;
  constexpr double least = 0.04 / 2.4;
  const auto& routing = plan.routing;
  const bool drawn = states_expert_loads(plan);
  const double used = drawn ? deviation_of_rows(plan, experts) : routing.imbalance;
  if (used > 0) return {used, used, used * least / usual, used * most / usual, true};
  const auto held = std::max<std::int64_t>(1, experts.routed_experts / plan.parallelism.expert);
  const double even = std::sqrt(static_cast<double>(held));
  const bool stated = !routing.rows_per_rank.empty() || routing.pad_to_capacity.value_or(false) ||
                      plan.places.contains("routing.imbalance") || drawn;
  return {used, usual / even, 0, most / even, stated};
}

void set_imbalance(Plan& plan, double imbalance) {
  auto& routing = plan.routing;
  routing.imbalance = imbalance;
  routing.rows_per_rank.clear();
  routing.load_file.reset();
  routing.skew.reset();
  routing.correlation.reset();
  routing.balancing.reset();
  routing.bias_rate.reset();
}

}  // namespace plumbline::model
