// Which replicas of a pipeline rank wait for each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/plan/layout.h"
#include "model/program/program.h"

namespace plumbline::sim {

struct GpuGroups {
  std::vector<std::int32_t> of;                    // [replica] its group
  std::vector<std::vector<std::int32_t>> members;  // [group] replicas, ascending
};

// Returns the smallest groups of replicas that hold every one of the given groups whole.
GpuGroups join_groups(std::span<const model::RankGroup> groups, std::int64_t replicas);

// Returns the group that holds the groups of all collectives among the operators.
model::RankGroup collective_ranks(const model::Graph& graph, std::span<const std::uint16_t> operators);

// The barriers of a program: segments whose start, or whose transfer, waits for other replicas.
class SlotBarriers {
 public:
  // Segments of communication wait for the replicas of `exchange`.
  SlotBarriers(const model::StepProgram& program, const model::RankGroup& exchange, std::int64_t replicas);

  // Returns which of kinds() a segment waits for; -1: it waits for nobody.
  std::int32_t kind(std::size_t slot_template, std::size_t segment) const { return kinds_[slot_template][segment]; }
  const std::vector<GpuGroups>& kinds() const { return groups_; }
  // Returns the replicas that wait for each other within a slot, directly or through others.
  const GpuGroups& together(std::size_t slot_template) const { return together_[joined_[slot_template]]; }
  // Returns the index of together() in joins(), where each occurs once.
  std::size_t joined(std::size_t slot_template) const { return joined_[slot_template]; }
  const std::vector<GpuGroups>& joins() const { return together_; }

 private:
  std::vector<std::vector<std::int32_t>> kinds_;  // [template][segment]
  std::vector<GpuGroups> groups_;                 // [kind]
  std::vector<std::size_t> joined_;               // [template]
  std::vector<GpuGroups> together_;
};

}  // namespace plumbline::sim
