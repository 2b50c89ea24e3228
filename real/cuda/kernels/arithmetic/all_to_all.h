// Which rank gets which token: inline integer functions for the host and the device compiler, tested without a GPU.
#pragma once

#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

// Which member of a group holds which expert. Replicas of the same experts are on adjacent members; a token goes to the
// replica whose index is its own rank's position modulo the number of replicas.
struct ExpertHomes {
  std::int32_t experts = 1, per_rank = 1;
  std::int32_t members = 1, position = 0;  // of the group, and this rank's position in it
};

PLUMBLINE_HOST_DEVICE inline bool exists(const ExpertHomes& homes, std::int32_t expert) {
  return expert >= 0 && expert < homes.experts;
}

PLUMBLINE_HOST_DEVICE inline std::int32_t home_of(const ExpertHomes& homes, std::int32_t expert) {
  const std::int32_t replicas = homes.members * homes.per_rank / homes.experts;
  return expert / homes.per_rank * replicas + homes.position % replicas;
}

// Returns the expert's number on `member`; -1 if another member holds it.
PLUMBLINE_HOST_DEVICE inline std::int32_t local_number(const ExpertHomes& homes, std::int32_t expert,
                                                       std::int32_t member) {
  return exists(homes, expert) && home_of(homes, expert) == member ? expert % homes.per_rank : -1;
}

// The buckets of a leg: the member that gets the token; its node, so that a token crosses the network once; or the
// member's place within this rank's node, for forwarded tokens.
enum class Leg : std::uint8_t { to_members, to_nodes, inside_node };

struct Buckets {
  ExpertHomes homes;
  Leg leg = Leg::to_members;
  std::int32_t node_members = 1;  // members of the group on each node, adjacent in its order
};

PLUMBLINE_HOST_DEVICE inline std::int32_t bucket_count(const Buckets& buckets) {
  if (buckets.leg == Leg::to_members) return buckets.homes.members;
  return buckets.leg == Leg::to_nodes ? buckets.homes.members / buckets.node_members : buckets.node_members;
}

PLUMBLINE_HOST_DEVICE inline std::int32_t own_node(const Buckets& buckets) {
  return buckets.homes.position / buckets.node_members;
}

// Returns -1 if the expert does not exist, or lies on a node that the leg does not serve.
PLUMBLINE_HOST_DEVICE inline std::int32_t bucket_of(const Buckets& buckets, std::int32_t expert) {
  if (!exists(buckets.homes, expert)) return -1;
  const std::int32_t member = home_of(buckets.homes, expert);
  if (buckets.leg == Leg::to_members) return member;
  const std::int32_t node = member / buckets.node_members;
  if (buckets.leg == Leg::to_nodes) return node;
  return node == own_node(buckets) ? member % buckets.node_members : -1;
}

// The sends of a token that chose these experts.
struct Visit {
  bool goes = false;        // to this bucket
  std::int32_t before = 0;  // number of lower buckets to which it goes
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

// Returns the bucket of a row of a list whose buckets begin at first[0 .. count].
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

// Returns the index-th row of a list, not counting rows [hole, hole + hole_rows).
PLUMBLINE_HOST_DEVICE inline std::int64_t around_hole(std::int64_t index, std::int64_t hole, std::int64_t hole_rows) {
  return index < hole ? index : index + hole_rows;
}

// Returns the place of a record in a cyclic buffer of `capacity` records.
PLUMBLINE_HOST_DEVICE inline std::int64_t sink_place(std::int64_t first, std::int64_t index, std::int64_t capacity) {
  return (first + index) % capacity;
}

// Returns when the index-th row may leave, in nanoseconds after the first.
PLUMBLINE_HOST_DEVICE inline std::int64_t due_nanoseconds(std::int64_t index, std::int64_t picoseconds_per_row) {
  return index * picoseconds_per_row / 1000;
}

// A warp has `staying` and `leaving` rows and mixes them evenly. Returns whether the left-th leaving row is next after
// the turn-th staying row.
PLUMBLINE_HOST_DEVICE inline bool leaves_now(std::int64_t turn, std::int64_t staying, std::int64_t left,
                                             std::int64_t leaving) {
  return left < leaving && (turn >= staying || left * staying < (turn + 1) * leaving);
}

}  // namespace plumbline::real::cuda
