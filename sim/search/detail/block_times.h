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
#include <optional>
#include <utility>
#include <vector>

#include "model/graph/graph.h"
#include "model/program/program.h"
#include "model/program/slot_template.h"
#include "model/schedule/schedule.h"
#include "sim/predict/cost_models.h"
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
// (model/program/slot_template.h).
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

}  // namespace plumbline::sim
