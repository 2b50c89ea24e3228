// Gradients that are reduced and parameters that are gathered beside the slots of a step, each unit when it can be.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "real/executor/step/rank_state.h"

namespace plumbline::real {

class DataParallelRunner {
 public:
  explicit DataParallelRunner(RankState& rank);

  // The step begins; with `gather` the parameters that the last update left in shards are gathered.
  void begin(bool gather);
  // Before something of a slot is launched on a stream: it waits for its parameters.
  void before(std::int32_t slot, std::int32_t segment, model::Stream stream);
  // A segment (-1: the whole slot) has been launched: what only waited for it follows.
  void after(std::int32_t slot, std::int32_t segment);
  // All slots have been launched: so is all that is left, and the compute stream waits for it.
  void finish();

  // Gathers a unit at once, on the compute stream.
  void gather(std::int32_t stage, std::size_t unit, model::Stream stream);

 private:
  using Unit = model::DataParallelCollectives;
  void launch(const Unit& unit);
  void launch_operators(std::int32_t stage, const std::vector<std::uint16_t>& operators, model::Stream stream,
                        const char* name);

  RankState& rank_;
  std::vector<Unit> order_;  // the same on all ranks that hold the same stages
  std::size_t next_ = 0;
  bool gather_ = false;
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Event>> awaited_;  // (slot, segment)
};

}  // namespace plumbline::real
