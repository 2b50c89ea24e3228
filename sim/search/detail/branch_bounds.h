// Lower bounds on the steps of a branch's plans under one recomputation, from its blocks
// (sim/search/detail/block_times.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "model/layers/blocks.h"
#include "model/layers/context.h"
#include "model/program/compile.h"
#include "model/schedule/evaluate.h"
#include "sim/predict/cached_stages.h"
#include "sim/search/detail/block_times.h"
#include "sim/search/space.h"

namespace plumbline::sim {

using StageBlock = model::BlockList::value_type;  // kind and pass

// Returns the lists of a plan that need not have a layout of GPUs.
StageLists stage_lists(const model::Plan& plan, const model::Architecture& architecture, std::int64_t stages);

// The graphs of a branch's blocks, each built once. For one thread at a time.
class BranchBlocks {
 public:
  // `plan` is any of the branch with the recomputation.
  BranchBlocks(const Inputs& inputs, const model::Plan& plan);

  BlockSlots& block(const StageBlock& block);
  // Returns the slot of a pair of layers.
  const model::SlotTemplate& pair(const StageBlock& forward, const StageBlock& backward);
  model::Bytes p2p() const { return p2p_; }
  const model::Architecture& architecture() const { return context_.architecture; }

 private:
  model::LayerContext context_;
  model::TensorOverlap overlap_;
  model::Bytes p2p_;
  std::map<StageBlock, BlockSlots> known_;
  std::map<std::pair<StageBlock, StageBlock>, model::SlotTemplate> pairs_;
};

// Lower bounds on the seconds of those blocks under one cost model. Both arguments must outlive the object.
class BranchBounds {
 public:
  BranchBounds(BranchBlocks& blocks, const CostModels& costs)
      : blocks_(blocks), costs_(costs), p2p_(costs.communication.p2p(blocks.p2p(), 1)) {}

  // Returns a bound in seconds for every plan of the branch with the recomputation of `plan`. The busiest rank has at
  // least the mean work of all ranks, however layers are split and ordered, and the streams of all ranks together have
  // the work of the whole model for every micro-batch. A rank's mean share is micro-batches / pipeline passes through
  // the model, which is the same for all pipeline degrees, because the micro-batches grow with them.
  double branch(const model::Plan& plan);

  // Returns bounds in seconds for the slots of a plan with this schedule and these stages, by slot class.
  std::vector<double> slots(const model::ScheduleOutline& outline, const StageLists& stages);
  // Returns the seconds of a message between two ranks.
  double p2p() const { return p2p_; }

 private:
  struct Stage {
    model::BlockList blocks;
    std::array<std::optional<StreamWork>, 4> works;  // F, B, I, W as model::OpType
    std::array<std::optional<double>, 4> seconds;    // of a slot
  };
  BlockTimes& block(const StageBlock& block);
  const Path& pair(const StageBlock& forward, const StageBlock& backward);
  Stage& stage(const model::BlockList& blocks);
  const StreamWork& work(Stage& stage, model::OpType type);
  double slot(Stage& stage, model::OpType type);
  double pair(Stage& forward, Stage& backward);

  BranchBlocks& blocks_;
  const CostModels& costs_;
  double p2p_;
  std::map<StageBlock, BlockTimes> known_;
  std::map<std::pair<StageBlock, StageBlock>, Path> layer_pairs_;
  std::map<model::BlockList, Stage> stages_;
  std::map<std::pair<const Stage*, const Stage*>, double> pairs_;
};

}  // namespace plumbline::sim
