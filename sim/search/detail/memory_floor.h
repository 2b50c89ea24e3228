// What every rank holds through the whole step at least, known before any slot is put together: parameters, gradients
// and optimizer states of its layers, the driver's context, workspaces and buffers of groups. A plan needs more: what
// is kept between forward and backward, gathered parameters, buckets, fragmentation.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "model/layers/blocks.h"
#include "model/plan/layout.h"
#include "sim/search/space.h"

namespace plumbline::sim {

// For one thread at a time; `inputs` must outlive it.
class MemoryFloor {
 public:
  explicit MemoryFloor(const Inputs& inputs);

  // Bytes of the fullest rank, at least, for each of the pipeline's splits. `plan` has the pipeline's degrees and
  // schedule and a ZeRO stage. The bytes of a block are those of model::training_state for a rank that holds this block
  // alone, without parameters that another block may own; over the blocks of a rank they add up, so no rank has less
  // than their sum.
  std::vector<double> bytes(const model::Plan& plan, const Pipeline& pipeline);

 private:
  static constexpr std::size_t kinds = 7;  // of model::BlockKind
  using States = std::array<std::optional<double>, kinds>;

  double block_bytes(model::BlockKind kind, const model::Plan& plan, const model::Layout& layout, States& states);
  const model::Graph& graph(model::BlockKind kind, const model::Plan& plan, const model::Layout& layout);

  const Inputs& inputs_;
  std::vector<model::BlockKind> layer_kinds_;
  std::map<std::vector<std::int64_t>, model::Graph> graphs_;  // parameters and gradients only
  std::map<std::vector<std::int64_t>, States> states_;        // of one block of each kind, by sharding
};

}  // namespace plumbline::sim
