#include "model/routing.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "model/random.h"

namespace plumbline::model {

namespace {

constexpr int sample_tokens = 2048;
constexpr std::uint64_t seed = 20250225;

// The first `count` of `indices` become those with the largest scores; ties go to the smaller index.
void select_best(std::vector<std::int64_t>& indices, std::int64_t count, const std::vector<double>& scores) {
  std::partial_sort(indices.begin(), indices.begin() + count, indices.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
}

std::vector<std::int64_t> allowed_experts(const MixtureOfExperts& e, std::int64_t groups_per_token,
                                          const std::vector<double>& scores) {
  const std::int64_t size = e.routed_experts / e.groups;
  std::vector<double> group_scores(e.groups);
  for (std::int64_t g = 0; g < e.groups; ++g) {
    std::vector<double> members(scores.begin() + g * size, scores.begin() + (g + 1) * size);
    const auto best = std::min<std::int64_t>(e.group_score_experts, size);
    std::partial_sort(members.begin(), members.begin() + best, members.end(), std::greater<>());
    group_scores[g] = std::accumulate(members.begin(), members.begin() + best, 0.0);
  }
  std::vector<std::int64_t> groups(e.groups);
  std::iota(groups.begin(), groups.end(), 0);
  select_best(groups, groups_per_token, group_scores);
  std::vector<std::int64_t> allowed;
  for (std::int64_t g = 0; g < groups_per_token; ++g)
    for (std::int64_t i = 0; i < size; ++i) allowed.push_back(groups[g] * size + i);
  return allowed;
}

}  // namespace

RoutingSpread routing_spread(const MixtureOfExperts& e, std::int64_t groups_per_token, std::int64_t expert_parallel,
                             std::int64_t ranks_per_node) {
  if (e.routed_experts == 0) return {};
  if (expert_parallel == 1) return {1, 1};
  const std::int64_t experts_per_rank = e.routed_experts / expert_parallel;
  Random random(seed);
  std::vector<double> scores(e.routed_experts);
  double ranks_total = 0;
  double nodes_total = 0;
  for (int token = 0; token < sample_tokens; ++token) {
    for (double& score : scores) score = 1 / (1 + std::exp(-random.normal()));
    std::vector<std::int64_t> allowed = allowed_experts(e, groups_per_token, scores);
    select_best(allowed, e.experts_per_token, scores);
    std::set<std::int64_t> ranks;
    std::set<std::int64_t> nodes;
    for (std::int64_t i = 0; i < e.experts_per_token; ++i) {
      ranks.insert(allowed[i] / experts_per_rank);
      nodes.insert(allowed[i] / experts_per_rank / ranks_per_node);
    }
    ranks_total += static_cast<double>(ranks.size());
    nodes_total += static_cast<double>(nodes.size());
  }
  return {ranks_total / sample_tokens, nodes_total / sample_tokens};
}

}  // namespace plumbline::model
