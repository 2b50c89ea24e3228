// The least memory that every rank holds through the whole step: parameters, gradients and optimizer states of its
// layers, the driver's context, workspaces and buffers of groups. It needs no slots. A plan needs more: tensors kept
// between forward and backward, gathered parameters, buckets, fragmentation.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "model/layers/blocks.h"
#include "model/plan/layout.h"
#include "sim/search/space.h"

namespace plumbline::sim {

// For one thread at a time; `inputs` must outlive the object.
class MemoryFloor {
 public:
  explicit MemoryFloor(const Inputs& inputs);

  struct Least {
    double gpu = 0;   // of the fullest rank
    double host = 0;  // of the fullest host, which has no less than the mean
  };
  // Returns the least bytes for each of the pipeline's splits. `plan` has the pipeline's degrees and schedule and a
  // ZeRO stage. The bytes of a block are those of model::training_state for a rank with this block alone, without
  // parameters that another block may own. Over the blocks of a rank they add up, so no rank has less than their sum.
  std::vector<Least> bytes(const model::Plan& plan, const Pipeline& pipeline);

 private:
  using States = std::map<model::BlockKind, Least>;  // of a rank, on its GPU and on its host

  Least block_bytes(model::BlockKind kind, const model::Plan& plan, const model::Layout& layout, States& states);
  const model::Graph& graph(model::BlockKind kind, const model::Plan& plan, const model::Layout& layout);

  const Inputs& inputs_;
  model::Device device_;  // with what the software holds
  std::vector<model::BlockKind> layer_kinds_;
  std::map<std::vector<std::int64_t>, model::Graph> graphs_;  // parameters and gradients only
  std::map<std::vector<std::int64_t>, States> states_;        // of one block of each kind, by sharding
};

}  // namespace plumbline::sim
