// One overlapped pair of chunks on one GPU, kernel by kernel: what a profiler would record on that rank.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/graph/graph.h"
#include "model/result/timeline.h"
#include "sim/predict/inputs.h"
#include "sim/step/kernel_slot.h"

namespace plumbline::sim {

// What the profiled rank had to do. A slot pairs forward layer s with backward layer (layers - 1 - s).
struct ChunkRank {
  struct Slot {
    double forward_rows = 0, backward_rows = 0;  // expert rows of this rank, padded; 0: the expected ones
    // Seconds that combine(B), dispatch(F), dispatch(B), combine(F) waited in their meeting, its own time
    // included; unset: as predicted for the group.
    std::array<std::optional<double>, 4> waits;
  };
  std::vector<Slot> slots;  // empty: expected rows and predicted waits everywhere
};

struct ChunkRun {
  // A kernel trace that ends with the chunk. A kernel stands for the few that one operator may launch, launch gaps
  // included (model/cost/kernel_cost.h); a part of an exchange is "layout", "notify" (with its wait) or "transfer".
  // Phases span all kernels of theirs; an exchange's begins with its preparation.
  model::Timeline timeline;
  double model_flops = 0;  // three times the forward FLOPs of products and attention (not causal)
};

// The pair of two interior chunks of a plan, ready to run on ranks with different rows and waits.
class ChunkModel {
 public:
  // Infeasible when the plan's schedule has no overlapped pair.
  static model::Result<ChunkModel> make(const Inputs& inputs);
  // Input error when `rank` has another number of slots than the chunk has layers.
  model::Result<ChunkRun> run(const ChunkRank& rank) const;

 private:
  ChunkModel() = default;
  std::string plan_file_;
  std::int32_t layers_ = 0;
  std::int64_t device_sms_ = 0;
  std::vector<model::Graph> blocks_;
  KernelSlot kernels_;  // waits: as predicted for the group
};

// make() and run() for one rank.
model::Result<ChunkRun> run_chunk(const Inputs& inputs, const ChunkRank& rank);

}  // namespace plumbline::sim
