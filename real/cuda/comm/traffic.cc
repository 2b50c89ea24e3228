#include "real/cuda/comm/traffic.h"

#include <algorithm>

namespace plumbline::real::cuda {

std::vector<std::int64_t> Traffic::sent_by(std::int32_t peer) const {
  std::vector<std::int64_t> first{0};
  for (std::int32_t to = 0; to < peers_; ++to) first.push_back(first.back() + rows(peer, to));
  return first;
}

std::vector<std::int64_t> Traffic::received_by(std::int32_t peer) const {
  std::vector<std::int64_t> first{0};
  for (std::int32_t from = 0; from < peers_; ++from) first.push_back(first.back() + rows(from, peer));
  return first;
}

std::int64_t Traffic::most_sent() const {
  std::int64_t most = 0;
  for (std::int32_t peer = 0; peer < peers_; ++peer) most = std::max(most, sent_by(peer).back());
  return most;
}

Traffic Traffic::back() const {
  Traffic result(peers_, own_);
  for (std::int32_t from = 0; from < peers_; ++from)
    for (std::int32_t to = 0; to < peers_; ++to) result.rows(to, from) = rows(from, to);
  return result;
}

Traffic between_members(const SharedCounts& counts) {
  Traffic traffic(counts.homes.members, counts.homes.position);
  for (std::int32_t from = 0; from < traffic.peers(); ++from)
    for (std::int32_t to = 0; to < traffic.peers(); ++to) traffic.rows(from, to) = counts.to_member(from, to);
  return traffic;
}

Traffic between_nodes(const SharedCounts& counts) {
  Traffic traffic(counts.nodes(), counts.node());
  for (std::int32_t from = 0; from < traffic.peers(); ++from)
    for (std::int32_t to = 0; to < traffic.peers(); ++to)
      traffic.rows(from, to) = counts.to_node(from * counts.node_members + counts.place(), to);
  return traffic;
}

Traffic inside_node(const SharedCounts& counts) {
  Traffic traffic(counts.node_members, counts.place());
  const std::int32_t first = counts.node() * counts.node_members;
  for (std::int32_t sender = 0; sender < counts.homes.members; ++sender)
    for (std::int32_t to = 0; to < traffic.peers(); ++to)
      traffic.rows(sender % counts.node_members, to) += counts.to_member(sender, first + to);
  return traffic;
}

std::vector<std::int64_t> arriving_per_expert(const SharedCounts& counts) {
  const ExpertHomes& homes = counts.homes;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(homes.per_rank));
  for (std::int32_t member = 0; member < homes.members; ++member) {
    ExpertHomes of_member = homes;
    of_member.position = member;
    for (std::int32_t expert = 0; expert < homes.experts; ++expert)
      if (home_of(of_member, expert) == homes.position)
        rows[static_cast<std::size_t>(expert % homes.per_rank)] += counts.choices(member, expert);
  }
  return rows;
}

}  // namespace plumbline::real::cuda
