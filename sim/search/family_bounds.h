// Lower bounds on the steps of a family's plans under one recomputation, from its blocks (sim/search/block_times.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/layers/blocks.h"
#include "model/layers/context.h"
#include "sim/cached_stages.h"
#include "sim/search/block_times.h"
#include "sim/search/schedule_bound.h"
#include "sim/search/space.h"

namespace plumbline::sim {

// The stages of a plan by the blocks that they have.
struct StageLists {
  std::vector<BlockList> kinds;             // distinct ones
  std::vector<std::int32_t> kind_of_stage;  // index into kinds
};
StageLists stage_lists(const model::Plan& plan, const model::Architecture& architecture, std::int64_t stages);

// The graphs of a family's blocks, each written once. For one thread at a time.
class FamilyBlocks {
 public:
  // `plan` is one of the family's; its recomputation counts.
  FamilyBlocks(const Inputs& inputs, const model::Plan& plan);

  const model::Graph& graph(model::BlockKind kind, bool recomputed);
  std::int64_t pieces() const { return pieces_; }
  model::Bytes hop() const { return hop_; }

 private:
  model::LayerContext context_;
  std::int64_t pieces_;
  model::Bytes hop_;
  std::map<std::pair<model::BlockKind, bool>, model::Graph> known_;
};

// Seconds of those blocks under one cost model. Both must outlive it.
class FamilyBounds {
 public:
  FamilyBounds(FamilyBlocks& blocks, const CostModels& costs)
      : blocks_(blocks), costs_(costs), hop_(costs.exchanges.hop(blocks.hop(), 1)) {}

  // Of every plan of the family in which a rank works for `micro_batches / pipeline` whole passes on average: the
  // busiest rank does as much as the mean of all ranks at least, however layers are split and in whatever order, and
  // streams of all ranks together add up to those of the blocks of `whole`, the model as one stage.
  double family(const BlockList& whole, double passes);

  // Of a plan with this schedule and these stages.
  double schedule(const ScheduleOutline& outline, const StageLists& stages);

 private:
  struct Stage {
    std::array<PhaseTimes, 4> phases;  // F, B, I, W as model::OpType
    std::array<double, 4> seconds{};   // of a slot
  };
  const BlockTimes& block(const std::pair<model::BlockKind, bool>& block);
  const Stage& stage(const BlockList& blocks);
  double pair(const Stage& forward, const Stage& backward);

  FamilyBlocks& blocks_;
  const CostModels& costs_;
  double hop_;
  std::map<std::pair<model::BlockKind, bool>, BlockTimes> known_;
  std::map<BlockList, Stage> stages_;
  std::map<std::pair<const Stage*, const Stage*>, double> pairs_;
};

}  // namespace plumbline::sim
