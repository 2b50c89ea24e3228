// Who gets which token, as integers: inline functions that both compilers take, tested without a GPU.
#pragma once

#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

// Which member of a group holds which expert. Where members hold parts of the same experts, those are neighbours, and
// a token goes to the one that its own rank's place among neighbours says.
struct ExpertHomes {
  std::int32_t experts = 1, per_rank = 1;
  std::int32_t members = 1, position = 0;  // of the group, and this rank's place in it
};

PLUMBLINE_HOST_DEVICE inline bool exists(const ExpertHomes& homes, std::int32_t expert) {
  return expert >= 0 && expert < homes.experts;
}

PLUMBLINE_HOST_DEVICE inline std::int32_t home_of(const ExpertHomes& homes, std::int32_t expert) {
  const std::int32_t replicas = homes.members * homes.per_rank / homes.experts;
  return expert / homes.per_rank * replicas + homes.position % replicas;
}

// As `member` numbers it; -1 for an expert of another one.
PLUMBLINE_HOST_DEVICE inline std::int32_t local_number(const ExpertHomes& homes, std::int32_t expert,
                                                       std::int32_t member) {
  return exists(homes, expert) && home_of(homes, expert) == member ? expert % homes.per_rank : -1;
}

// What sends are sorted by: the member that gets the token; its node, so that a token crosses the network once; or the
// member's place within this rank's node, for tokens that a rank passes on.
enum class Leg : std::uint8_t { to_members, to_nodes, inside_node };

struct Buckets {
  ExpertHomes homes;
  Leg leg = Leg::to_members;
  std::int32_t node_members = 1;  // members of the group on each node, neighbours in its order
};

PLUMBLINE_HOST_DEVICE inline std::int32_t bucket_count(const Buckets& buckets) {
  if (buckets.leg == Leg::to_members) return buckets.homes.members;
  return buckets.leg == Leg::to_nodes ? buckets.homes.members / buckets.node_members : buckets.node_members;
}

PLUMBLINE_HOST_DEVICE inline std::int32_t own_node(const Buckets& buckets) {
  return buckets.homes.position / buckets.node_members;
}

// -1: the expert does not exist, or lies on another node than the leg serves.
PLUMBLINE_HOST_DEVICE inline std::int32_t bucket_of(const Buckets& buckets, std::int32_t expert) {
  if (!exists(buckets.homes, expert)) return -1;
  const std::int32_t member = home_of(buckets.homes, expert);
  if (buckets.leg == Leg::to_members) return member;
  const std::int32_t node = member / buckets.node_members;
  if (buckets.leg == Leg::to_nodes) return node;
  return node == own_node(buckets) ? member % buckets.node_members : -1;
}

// Of a token that chose these experts.
struct Visit {
  bool goes = false;        // to the bucket
  std::int32_t before = 0;  // to how many buckets below it
};

PLUMBLINE_HOST_DEVICE inline Visit visit(const Buckets& buckets, const std::int32_t* experts, std::int32_t choices,
                                         std::int32_t bucket) {
  Visit result;
  for (std::int32_t i = 0; i < choices; ++i) {
    const std::int32_t at = bucket_of(buckets, experts[i]);
    if (at == bucket) result.goes = true;
    if (at < 0 || at >= bucket) continue;
    bool seen = false;
    for (std::int32_t j = 0; j < i && !seen; ++j) seen = bucket_of(buckets, experts[j]) == at;
    if (!seen) ++result.before;
  }
  return result;
}

// The bucket of a row of a list whose buckets begin at first[0 .. count].
PLUMBLINE_HOST_DEVICE inline std::int32_t bucket_of_row(const std::int32_t* first, std::int32_t count,
                                                        std::int64_t row) {
  std::int32_t low = 0, high = count - 1;
  while (low < high) {
    const std::int32_t middle = (low + high + 1) / 2;
    if (first[middle] <= row)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

// The index-th row of a list without rows [hole, hole + hole_rows).
PLUMBLINE_HOST_DEVICE inline std::int64_t around_hole(std::int64_t index, std::int64_t hole, std::int64_t hole_rows) {
  return index < hole ? index : index + hole_rows;
}

// Records of a ring that has room for `capacity` of them.
PLUMBLINE_HOST_DEVICE inline std::int64_t sink_place(std::int64_t first, std::int64_t index, std::int64_t capacity) {
  return (first + index) % capacity;
}

// When the index-th row may leave, in nanoseconds after the first.
PLUMBLINE_HOST_DEVICE inline std::int64_t due_nanoseconds(std::int64_t index, std::int64_t picoseconds_per_row) {
  return index * picoseconds_per_row / 1000;
}

// Of a warp that has `staying` and `leaving` rows to move and mixes them evenly: whether, after its turn-th row that
// stays, the left-th row that leaves is next.
PLUMBLINE_HOST_DEVICE inline bool leaves_now(std::int64_t turn, std::int64_t staying, std::int64_t left,
                                             std::int64_t leaving) {
  return left < leaving && (turn >= staying || left * staying < (turn + 1) * leaving);
}

}  // namespace plumbline::real::cuda
