// Launches the data-parallel collectives of a step, concurrent with its slots: the reduction of each shard unit's
// gradients and the gather of its parameters, as early as possible.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "real/executor/step/rank_state.h"

namespace plumbline::real {

class DataParallelRunner {
 public:
  explicit DataParallelRunner(RankState& rank);

  // Begins a step; with `gather`, it gathers the parameters that the last update left in shards.
  void begin(bool gather);
  // Call it before a segment (-1: the whole slot) is launched on a stream, which then waits for its parameters.
  void before(std::int32_t slot, std::int32_t segment, model::Stream stream);
  // Call it after a segment (-1: the whole slot) is launched; launches the collectives that only waited for it.
  void after(std::int32_t slot, std::int32_t segment);
  // Call it after all slots; launches all remaining collectives and makes the compute stream wait for them.
  void finish();

  // Gathers a unit's parameters at once, on the given stream.
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
