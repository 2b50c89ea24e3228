// Lower bounds on the steps of a branch's plans under one recomputation.
//
// Lower bounds on the seconds of slots, computed from their blocks alone. They are fast: no slot is composed and
// nothing is run. They hold for the closed form and for events.
//
// A GPU runs each of its streams in order, and a segment takes at least its time under the best conditions. This gives
// two bounds of a slot with given blocks.
// 1. Streams (StreamWork). No stream ends before all of its work is done, whatever runs concurrently:
//      slot >= sum of the compute stream + (s - 1) * sum of the second compute stream
//    While both compute streams run, each is at least s times slower (sim/engine/gpu_model.h: max(1, (w + w) / free
//    SMs) for GEMMs, 2 for others). In t seconds of overlap both together thus get 2t/s done, so the second stream
//    hides at most (2 - s) of its work. While the communication stream transfers, X seconds in all, compute gets
//    r <= 1 seconds of its best work done per second, with r by segment:
//      slot >= C + X - most of C that X seconds can hold, those of the largest r first
//    The second stream's (s - 1) * sum adds to it, times the smallest r among those: make the time in which both
//    compute streams run s times shorter, and the first stream's work is done as if alone, with that much less of X.
//    All terms add up over blocks, and over both sides of a pair.
// 2. Paths (Path). The blocks of a slot, or of a pair the blocks that run together, follow each other on each stream
//    and wherever one reads what the other wrote. A path enters and leaves a block by a door, and no path through the
//    blocks, over doors that adjacent blocks share, is longer than the slot. Doors are the streams (a block begins on a
//    stream after earlier work there) and the tensors between two blocks of the forward and of the backward side.
//    Blocks combine like matrices over (max, +). Waits inside a block are those of a slot with this block alone; longer
//    slots add waits and drop none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "model/graph/graph.h"
#include "model/layers/blocks.h"
#include "model/layers/context.h"
#include "model/program/compile.h"
#include "model/program/program.h"
#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"
#include "sim/predict/cached_stages.h"
#include "sim/predict/cost_models.h"
#include "sim/search/space.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

struct StreamWork {  // seconds
  static constexpr std::size_t rates = 64;

  double compute = 0;        // of the first stream; of both where s >= 2
  double second = 0;         // the part of the second stream's work that cannot be hidden
  double communication = 0;  // preparation, barrier, transfer
  double collective = 0;     // copies to and from the host have streams of their own, which are not bounded
  double transfer = 0;       // of the communication stream
  std::array<double, rates> overlapped{};  // s of compute during transfers, by the rate r: (i, i + 1] / rates

  StreamWork& add(const StreamWork& other, double times = 1);
  double bound() const;
};

class Path {
 public:
  static constexpr std::size_t doors = 5;  // compute, communication, collective stream; forward tensor, gradient
  Path();                                  // of no block
  // Makes the paths of a slot with at most one block per side; `seconds` are those of its segments.
  Path(const model::SlotTemplate& slot, const model::Graph* forward, const model::Graph* backward,
       const std::vector<double>& seconds);

  Path then(const Path& next) const;
  double longest() const;

 private:
  std::array<std::array<double, doors>, doors> paths_{};
};

// The slots of one block, composed on first use. `pieces` are those of an overlapped tensor collective
// (model/program/compile.h).
class BlockSlots {
 public:
  BlockSlots(model::Graph block, const model::TensorOverlap& overlap);
  const model::Graph& graph() const { return program_.blocks[0]; }
  const model::SlotTemplate& slot(model::OpType type);  // F, B, I or W

 private:
  model::StepProgram program_;
  model::TensorOverlap overlap_;
  std::array<std::optional<model::SlotTemplate>, 4> slots_;
};

// The seconds of a block's slots under one cost model, timed on first use. Timing is by operator, because slots of
// different types cut operators into different segments. `slots` and `costs` must outlive the object.
class BlockTimes {
 public:
  BlockTimes(BlockSlots& slots, const CostModels& costs);

  const StreamWork& work(model::OpType type);
  const Path& path(model::OpType type);
  double least_seconds(const model::Segment& segment);
  const model::Graph& graph() const { return slots_.graph(); }

 private:
  const SegmentTime& time(const model::Segment& segment, std::uint16_t index);
  StreamWork stream_work(const model::SlotTemplate& slot);

  BlockSlots& slots_;
  const CostModels& costs_;
  double slowdown_;
  std::vector<std::optional<SegmentTime>> known_;  // [operator]
  std::array<std::optional<StreamWork>, 4> works_;
  std::array<std::optional<Path>, 4> paths_;
};

// Returns s above: the least slowdown of two concurrent compute streams.
double least_sharing_slowdown(const model::SmPartition& partition);

using StageBlock = model::BlockList::value_type;  // kind and pass

// Returns the lists of a plan that need not have a layout of GPUs.
StageLists stage_lists(const model::Plan& plan, const model::Architecture& architecture, std::int64_t stages);

// The graphs of a branch's blocks, each built once. For one thread at a time.
class BranchBlocks {
 public:
  // `plan` is any of the branch with the recomputation.
  BranchBlocks(const Inputs& inputs, const model::Plan& plan);

  BlockSlots& block(const StageBlock& block);
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
