// Lower bounds on the seconds of slots from their blocks alone, which are quick to have: no slot is put together and
// nothing is run. They hold for the closed form and for events alike.
//
// A lane runs each of its streams in order, and a segment takes no less than under the conditions that suit it best.
// Two ways follow to bound a slot that works for given blocks.
//  1. Streams (StreamWork). No stream ends before all of its work is done, whatever runs beside it:
//       slot >= sum of the compute stream + (s - 1) * sum of the second compute stream
//     While both compute streams run, each is s times slower at least (sim/engine/gpu_model.h: max(1, (w + w) / free
//     SMs) of products, 2 of others), so of t seconds beside each other both together get 2t/s done: the second stream
//     hides at most (2 - s) of its work. And while the communication stream transfers, which takes X seconds in all,
//     compute gets r <= 1 seconds of its best work done per second, r by segment:
//       slot >= C + X - most of C that X seconds can hold, those of the largest r first
//     The second stream's (s - 1) * sum adds to it, times the smallest r among those: make the time in which both
//     compute streams run s times shorter, and the first stream's work is done as if alone, with that much less of X.
//     All terms add up over blocks, and over both sides of a pair.
//  2. Paths (Path). The blocks of a slot, in a pair the blocks that run together, follow each other: on each stream,
//     and where one reads what the other wrote. No way through them, from a block to the next by a door that both
//     have, is longer than the slot. Doors are the streams (a block begins on a stream after what came before it
//     there) and the tensors between two blocks of the forward and of the backward side. Put together block by block,
//     as products of matrices over (max, +). Waits inside a block are those of a slot that holds it alone: longer slots
//     add waits and drop none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "model/graph/graph.h"
#include "model/program/program.h"
#include "model/schedule/schedule.h"
#include "sim/predict/cost_models.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

struct StreamWork {  // seconds
  static constexpr std::size_t rates = 64;

  double compute = 0;                      // of the first stream; where s >= 2 of both
  double second = 0;                       // what of the second stream cannot be hidden
  double communication = 0;                // preparation, meeting, transfer
  double collective = 0;                   // copies to and from the host are a stream each that nobody bounds by
  double transfer = 0;                     // of the communication stream
  std::array<double, rates> overlapped{};  // the compute's seconds beside transfers, by the rate r: (i, i + 1] / rates

  StreamWork& add(const StreamWork& other, double times = 1);
  double bound() const;
};

class Path {
 public:
  static constexpr std::size_t doors = 5;  // compute, communication, collective stream; forward tensor, gradient
  Path();                                  // of no block
  // Of a slot that holds one block of each side that it has; seconds of its segments.
  Path(const model::SlotTemplate& slot, const model::Graph* forward, const model::Graph* backward,
       const std::vector<double>& seconds);

  Path then(const Path& next) const;
  double longest() const;

 private:
  std::array<std::array<double, doors>, doors> paths_{};
};

// A block's slots, composed when they are first asked for. `pieces` of an overlapped tensor collective
// (model/program/slot_template.h).
class BlockSlots {
 public:
  BlockSlots(model::Graph block, std::int64_t pieces);
  const model::Graph& graph() const { return program_.blocks[0]; }
  const model::SlotTemplate& slot(model::OpType type);  // F, B, I or W

 private:
  model::StepProgram program_;
  std::int64_t pieces_;
  std::array<std::optional<model::SlotTemplate>, 4> slots_;
};

// What they take under one cost model, timed when it is first asked for, operator by operator: slots of different
// types cut operators into different segments. `slots` and `costs` must outlive it.
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

// How much slower the compute streams are beside each other, at least: s above.
double least_sharing_slowdown(const model::SmPartition& partition);

}  // namespace plumbline::sim
