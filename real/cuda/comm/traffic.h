// The rows that an all-to-all moves between ranks, computed on each rank from the shared counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "real/cuda/kernels/arithmetic/all_to_all.h"

namespace plumbline::real::cuda {

// The rows of one leg between its peers, one of which is this rank.
class Traffic {
 public:
  Traffic() = default;
  Traffic(std::int32_t peers, std::int32_t own)
      : peers_(peers), own_(own), rows_(static_cast<std::size_t>(peers) * static_cast<std::size_t>(peers)) {}

  std::int32_t peers() const { return peers_; }
  std::int32_t own() const { return own_; }
  std::int64_t& rows(std::int32_t from, std::int32_t to) { return rows_[place(from, to)]; }
  std::int64_t rows(std::int32_t from, std::int32_t to) const { return rows_[place(from, to)]; }

  // Returns [peers + 1] offsets of rows that lie by peer in ascending order; the last is their number.
  std::vector<std::int64_t> sent_by(std::int32_t peer) const;
  std::vector<std::int64_t> received_by(std::int32_t peer) const;
  // Returns the most rows that any peer sends.
  std::int64_t most_sent() const;
  // Returns the traffic of the way back.
  Traffic back() const;

 private:
  std::size_t place(std::int32_t from, std::int32_t to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(peers_) + static_cast<std::size_t>(to);
  }

  std::int32_t peers_ = 0, own_ = 0;
  std::vector<std::int64_t> rows_;
};

// The counts of all members of a group, `stride` integers per member: its sends to each member, its sends to each node,
// and its choices of each expert.
struct SharedCounts {
  const std::int32_t* first = nullptr;
  std::int64_t stride = 0;
  ExpertHomes homes;
  std::int32_t node_members = 1;

  std::int32_t nodes() const { return homes.members / node_members; }
  std::int32_t node() const { return homes.position / node_members; }
  std::int32_t place() const { return homes.position % node_members; }  // within the node
  std::int32_t to_member(std::int32_t from, std::int32_t member) const { return first[from * stride + member]; }
  std::int32_t to_node(std::int32_t from, std::int32_t node) const {
    return first[from * stride + homes.members + node];
  }
  std::int32_t choices(std::int32_t from, std::int32_t expert) const {
    return first[from * stride + homes.members + nodes() + expert];
  }
};

// One leg: a row to every member that a token needs.
Traffic between_members(const SharedCounts& counts);
// Two legs: a row to every node that a token needs, to the member at the sender's place there, which forwards it within
// the node.
Traffic between_nodes(const SharedCounts& counts);
Traffic inside_node(const SharedCounts& counts);

// Returns the rows per expert here: choices of this rank's experts by all members.
std::vector<std::int64_t> arriving_per_expert(const SharedCounts& counts);

}  // namespace plumbline::real::cuda
