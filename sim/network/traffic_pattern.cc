#include "sim/network/traffic_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace plumbline::sim {
namespace {

using topologies::Fabric;

bool amount(double value) { return std::isfinite(value) && value >= 0; }
bool amounts(const std::vector<double>& values) { return std::all_of(values.begin(), values.end(), amount); }

std::string find_group_fault(const Fabric& fabric, const TrafficPattern& pattern) {
  std::set<std::int64_t> seen;
  for (const std::int64_t gpu : pattern.gpus) {
    if (gpu < 0 || gpu >= fabric.gpus()) return fmt::format("GPU {} is not one of {}", gpu, fabric.gpus());
    if (!seen.insert(gpu).second) return fmt::format("GPU {} is twice in the group", gpu);
  }
  if (!amount(pattern.token_bytes)) return fmt::format("{} bytes per token", pattern.token_bytes);
  if (pattern.kind == TrafficKind::message && pattern.gpus.size() != 2) {
    return fmt::format("a message is between 2 ranks, not {}", pattern.gpus.size());
  }
  return "";
}

std::string find_token_fault(const TrafficPattern& pattern) {
  const std::size_t ranks = pattern.gpus.size();
  if (pattern.tokens.size() != 1 && pattern.tokens.size() != ranks) {
    return fmt::format("tokens of {} ranks for a group of {}", pattern.tokens.size(), ranks);
  }
  if (!pattern.popularity.empty() && pattern.popularity.size() != ranks) {
    return fmt::format("popularity of {} ranks for a group of {}", pattern.popularity.size(), ranks);
  }
  if (!amounts(pattern.tokens) || !amounts(pattern.popularity)) return "tokens and popularity are finite amounts";
  const bool unpopular = std::accumulate(pattern.popularity.begin(), pattern.popularity.end(), 0.0) == 0;
  if (!pattern.popularity.empty() && unpopular) return "some rank must be popular";
  if (!amount(pattern.nodes_per_token) || !amount(pattern.ranks_per_token)) {
    return fmt::format("{} nodes and {} ranks per token", pattern.nodes_per_token, pattern.ranks_per_token);
  }
  return "";
}

// Builds the transfers of a dispatch, node by node.
class TwoLeg {
 public:
  TwoLeg(const Fabric& fabric, const TrafficPattern& pattern) : fabric_(fabric), pattern_(pattern) {
    for (std::size_t rank = 0; rank < ranks(); ++rank) nodes_[fabric.node(gpu(rank))].push_back(rank);
    popularity_ = pattern.popularity.empty() ? std::vector<double>(ranks(), 1.0) : pattern.popularity;
    all_popularity_ = std::accumulate(popularity_.begin(), popularity_.end(), 0.0);
  }

  std::vector<Transfer> transfers() {
    for (const auto& [node, members] : nodes_) {
      for (std::size_t place = 0; place < members.size(); ++place) send(node, members[place], place);
    }
    for (const auto& [ends, bytes] : inside_) transfers_.push_back({ends.first, ends.second, bytes, 1});
    return std::move(transfers_);
  }

 private:
  std::size_t ranks() const { return pattern_.gpus.size(); }
  std::int64_t gpu(std::size_t rank) const { return pattern_.gpus[rank]; }
  double bytes(std::size_t rank) const {
    return pattern_.token_bytes * (pattern_.tokens.size() == 1 ? pattern_.tokens[0] : pattern_.tokens[rank]);
  }

  // Returns the GPU of the node where a rank's tokens land; `place` is the rank's index among its own node's members.
  std::int64_t landing(std::size_t rank, std::size_t place, const std::vector<std::size_t>& members) const {
    for (const std::size_t member : members)
      if (fabric_.index_in_node(gpu(member)) == fabric_.index_in_node(gpu(rank))) return gpu(member);
    return gpu(members[place % members.size()]);
  }

  void send(std::int64_t own_node, std::size_t rank, std::size_t place) {
    for (const auto& [node, members] : nodes_) {
      const std::int64_t lands = node == own_node ? gpu(rank) : landing(rank, place, members);
      double popularity = 0;
      for (const std::size_t member : members) {
        popularity += popularity_[member];
        const double share = std::min(1.0, pattern_.ranks_per_token * popularity_[member] / all_popularity_);
        if (gpu(member) != lands) inside_[{lands, gpu(member)}] += bytes(rank) * share;
      }
      const double share = std::min(1.0, pattern_.nodes_per_token * popularity / all_popularity_);
      if (node != own_node) transfers_.push_back({gpu(rank), lands, bytes(rank) * share, 0});
    }
  }

  const Fabric& fabric_;
  const TrafficPattern& pattern_;
  std::map<std::int64_t, std::vector<std::size_t>> nodes_;  // ranks of the group on each node
  std::vector<double> popularity_;
  double all_popularity_ = 0;
  std::vector<Transfer> transfers_;
  std::map<std::pair<std::int64_t, std::int64_t>, double> inside_;  // bytes from GPU to GPU of one node
};

std::vector<Transfer> all_to_all(const TrafficPattern& pattern) {
  std::vector<Transfer> transfers;
  for (const std::int64_t from : pattern.gpus) {
    for (const std::int64_t to : pattern.gpus)
      if (from != to) transfers.push_back({from, to, pattern.token_bytes, 0});
  }
  return transfers;
}

}  // namespace

model::Result<std::vector<Transfer>> transfers_of(const Fabric& fabric, const TrafficPattern& pattern) {
  const bool two_leg = pattern.kind == TrafficKind::dispatch || pattern.kind == TrafficKind::combine;
  std::string fault = find_group_fault(fabric, pattern);
  if (fault.empty() && two_leg) fault = find_token_fault(pattern);
  if (!fault.empty()) return model::wrong_input("", fault);
  if (pattern.kind == TrafficKind::message) {
    return std::vector<Transfer>{{pattern.gpus[0], pattern.gpus[1], pattern.token_bytes, 0}};
  }
  if (pattern.kind == TrafficKind::all_to_all) return all_to_all(pattern);
  std::vector<Transfer> transfers = TwoLeg(fabric, pattern).transfers();
  if (pattern.kind == TrafficKind::combine) {
    for (Transfer& transfer : transfers) std::swap(transfer.from, transfer.to);
  }
  return transfers;
}

}  // namespace plumbline::sim
