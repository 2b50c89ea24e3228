// The slots of a rank in step_recurrence.h for zero_stage 3, where a rank gathers parameters before every use. It
// applies the rules of model/program/data_parallel.h in one pass over the rank's slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/predict/detail/overlap_clock.h"
#include "sim/predict/step_recurrence.h"
#include "sim/step/step_end.h"

namespace plumbline::sim {

class GatherWalk {
 public:
  using Op = model::ScheduleTable::Op;

  // Begins the step of a rank. `step` must outlive the walk.
  void restart(const StepRecurrence& step, std::size_t rank);
  bool run_free(const Op& /*op*/, double /*begin*/) { return false; }  // every slot uses parameters
  // Runs the next slot of the rank from `begin` on, and returns the seconds that it waits for collectives.
  double run(const Op& op, double begin);
  const OverlapClock& clock() const { return clock_; }
  GradientsReady ready() const;

  // Returns stage and unit of each gather of the step.
  std::vector<std::pair<std::int32_t, std::int32_t>> gathers() const;

 private:
  using Moment = std::pair<std::int32_t, std::int32_t>;  // slot of the rank, segment
  static constexpr std::int32_t none = -1;

  struct Use {  // of a unit's parameters, by consecutive slots
    std::int32_t stage = 0, unit = 0;
    Moment first, last;
    double seconds = 0;         // of its gather
    std::size_t gather = 0;     // its number on the stream, once it is posted
    std::int32_t next = none;   // another use whose gather starts in the same slot
    std::int32_t after = none;  // segment of that slot
    bool gathered = true;       // false: its parameters were still there
  };

  const Op& op(std::int32_t slot) const { return step_->table->ops[rank_->ops[static_cast<std::size_t>(slot)]]; }
  const model::ScheduleTable::SlotClass& stages(std::int32_t slot) const {
    return step_->table->classes[op(slot).slot_class];
  }
  void collect();
  void keep_between();
  void schedule();
  void find_starting();
  void reduce(const Op& op, const SlotSync::Part& part);

  const StepRecurrence* step_ = nullptr;
  const model::ScheduleTable::Rank* rank_ = nullptr;
  OverlapClock clock_;
  std::int32_t slot_ = 0;  // the next one
  std::vector<Use> uses_;
  std::vector<std::int32_t> started_;                   // [slot]: the first use whose gather starts in the slot
  std::vector<std::int32_t> begun_;                     // [slot]: the last such use
  std::vector<std::int32_t> starting_;                  // uses of the running slot, in the order of their starts
  std::size_t next_ = 0;                                // use
  std::optional<std::size_t> reduced_;                  // the last reduction
  bool gate_ = false;                                   // the next slot waits for it
  std::vector<std::pair<std::size_t, double>> copies_;  // a gradient's reduction, seconds of its copy
};

}  // namespace plumbline::sim
