// One overlapped pair of chunks on one GPU, kernel by kernel, as a profiler would record it on that rank.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/graph/graph.h"
#include "model/program/program.h"
#include "model/result/timeline.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

struct Inputs;

// A slot template split into kernels: every kernel is a segment, so that a GPU runs it kernel by kernel.

struct KernelSlot {
  std::vector<model::Segment> segments;  // one operator each, or one of its launches; an all-to-all stays whole
  std::vector<std::uint16_t> origins;    // the template's segment that each came from
  std::vector<SegmentTime> times;
};

// Splits a slot. Grouped weight gradients become one kernel per expert; any other operator is one kernel, however many
// it launches.
KernelSlot take_apart(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs);

// The work of the profiled rank. A slot pairs forward layer s with backward layer (layers - 1 - s).
struct ChunkRank {
  struct Slot {
    double forward_rows = 0, backward_rows = 0;  // expert rows of this rank, padded; 0: the expected ones
    // Seconds that combine(B), dispatch(F), dispatch(B), combine(F) spent at their barrier, its own time included.
    // Unset means as predicted for the group.
    std::array<std::optional<double>, 4> waits;
  };
  std::vector<Slot> slots;  // empty: expected rows and predicted waits everywhere
};

struct ChunkRun {
  // A kernel trace that ends with the chunk. One kernel stands for the few that an operator may launch, launch gaps
  // included (model/cost/kernel_cost.h). The parts of an all-to-all are "layout", "notify" (with its wait) and
  // "transfer". A phase spans all of its kernels, from preparation on for an all-to-all.
  model::Timeline timeline;
  double model_flops = 0;  // three times the forward FLOPs of GEMMs and attention (not causal)
};

// The pair of two middle chunks of a plan, ready to run on ranks with different rows and waits.
class ChunkModel {
 public:
  // Returns an infeasible error when the plan's schedule has no overlapped pair.
  static model::Result<ChunkModel> make(const Inputs& inputs);
  // Returns an input error when `rank` does not have as many slots as the chunk has layers.
  model::Result<ChunkRun> run(const ChunkRank& rank) const;
  // Seconds at the four barriers of a pair of layers, mean over the ranks of the group.
  struct Barriers {
    double following = 0;  // in a pair of chunks that follows others
    double together = 0;   // in the first one, which all ranks begin together
  };
  const std::vector<Barriers>& barriers() const { return barriers_; }  // [pair of layers]

 private:
  ChunkModel() = default;
  std::string plan_file_;
  std::int32_t layers_ = 0;
  std::int64_t device_sms_ = 0;
  std::vector<model::Graph> blocks_;
  KernelSlot kernels_;  // waits: as predicted for the group
  std::vector<Barriers> barriers_;
};

// Calls make() and run() for one rank.
model::Result<ChunkRun> run_chunk(const Inputs& inputs, const ChunkRank& rank);

}  // namespace plumbline::sim
