// Lower bounds on the seconds of slots from their blocks alone, which are quick to have: no slot is put together and
// nothing is run. They hold for the closed form and for events alike.
//
// A lane runs each of its streams in order, and a segment takes no less than under the conditions that suit it best.
// Two ways follow to bound a slot that works for given blocks.
//  1. Streams (StreamWork). No stream ends before all of its work is done, whatever runs beside it:
//       slot >= sum of the compute stream + (s - 1) * sum of the second compute stream
//     While both compute streams run, each is s times slower at least (sim/lane.h: max(1, (w + w) / free SMs) of
//     products, 2 of others), so of t seconds beside each other both together get 2t/s done: the second stream hides
//     at most (2 - s) of its work. And while the communication stream transfers, which takes X seconds in all, compute
//     gets r <= 1 seconds of its best work done per second, r by segment:
//       slot >= C + X - most of C that X seconds can hold, those of the largest r first
//     All terms add up over blocks, and over both sides of a pair.
//  2. Paths (Path). In a slot of one side, blocks follow each other: on each stream, and where one reads what the
//     other wrote. The longest way through the blocks, entered and left through the same door, is no longer than the
//     slot. Doors are the streams (a block begins on a stream after what came before it there) and the tensor between
//     two blocks. Put together block by block, as products of matrices over (max, +). Waits inside a block are those of
//     a slot that holds it alone: longer slots add waits and drop none.
#pragma once

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "model/graph/graph.h"
#include "model/program.h"
#include "model/schedule/schedule.h"
#include "sim/cost_models.h"

namespace plumbline::sim {

struct StreamWork {  // seconds
  static constexpr std::size_t rates = 64;

  double compute = 0;        // with what of the second stream cannot be hidden
  double communication = 0;  // preparation, meeting, transfer
  double collective = 0;     // copies to and from the host are a stream each that nobody bounds by
  double transfer = 0;       // of the communication stream
  double mixed = 0;          // compute that can run beside transfers
  std::array<double, rates> beside{};  // its seconds beside transfers, by the rate r: (i, i + 1] / rates

  StreamWork& add(const StreamWork& other, double times = 1);
  double bound() const;
};

class Path {
 public:
  static constexpr std::size_t doors = 4;  // compute, communication, collective stream; tensor
  Path();  // of no block
  Path(const model::SlotTemplate& slot, const model::Graph& graph, const std::vector<double>& seconds, bool forward);

  Path then(const Path& next) const;
  double longest() const;

 private:
  std::array<std::array<double, doors>, doors> ways_{};
};

struct PhaseTimes {
  StreamWork work;
  Path path;
};
using BlockTimes = std::array<PhaseTimes, 4>;  // F, B, I, W as model::OpType

// Of one block. `pieces` of an overlapped tensor collective (model/slot_template.h).
BlockTimes block_times(const model::Graph& block, std::int64_t pieces, const CostModels& costs);

// How much slower the compute streams are beside each other, at least: s above.
double least_sharing_slowdown(const model::SmPartition& partition);

}  // namespace plumbline::sim
