// The closed form of a step, walked over all ranks on a schedule's table: the recurrence of its ops, and every rank's
// slots with the reductions and gathers that depend on them:
//   start of a collective = max(end of the one before it, end of what it depends on)
//   start of a segment    = max(its start within its slot, ends of the gathers it needs)
// A slot takes longer by the part of it that collectives overlap, times a factor of the whole slot. It equals the event
// simulation where compute and collectives do not slow each other down.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/schedule/schedule_table.h"
#include "sim/step/step_end.h"
#include "sim/step/template_run.h"

namespace plumbline::sim {

// The collectives that a slot starts or waits for.
struct SlotSync {
  struct Part {
    std::int32_t segment = -1;  // whose end starts a reduction, or whose start waits for a gather; -1: the whole slot
    double seconds = 0;
    double copy = 0;   // of the reduced gradient to the host
    double local = 0;  // of a reduction in a step that does not reduce over replicas
  };
  struct Use {  // of a unit's parameters by the slot
    bool forward = true;
    std::int32_t unit = 0;
    std::int32_t first = 0, last = 0;  // segments
    double seconds = 0;                // of its gather
  };
  std::vector<Part> reduces;  // in the order of their starts
  std::vector<Part> gathers;  // in the order in which slots need them; all start with the step
  std::vector<Use> uses;      // zero_stage 3: by first segment
  double reduce_seconds = 0;  // of all
  double local_seconds = 0;   // of all, where they do not reduce over replicas
  double reduce_tail = 0;     // from the start of the slot to the end of its reductions on an idle stream
  double slowdown = 1;        // factor on the slot's time during collectives
};

// The inputs of the recurrence for one plan.
struct StepRecurrence {
  // The slots that reduce where slots do that each: all that write gradients, the last of consecutive ones of a stage,
  // or the last of a stage.
  enum class After : std::uint8_t { pass, run, step };
  bool reduces_after(const model::ScheduleTable::Op& op) const {
    return reduce_after == After::pass || (reduce_after == After::run ? op.last_of_run : op.last_gradient);
  }

  enum class Reduce : std::uint8_t {
    once,         // after the last slot that writes the gradients
    once_at_end,  // after the last slot of the rank
    each,         // after every slot that writes the gradients, or those of reduce_after
    each_waiting  // the same, and the next slot waits for them
  };
  const model::ScheduleTable* table = nullptr;
  std::vector<const TemplateRun*> runs;  // [slot class]
  std::vector<const SlotSync*> syncs;    // [slot class]
  double p2p = 0;                        // s of a message between two ranks
  double collective_slowdown = 1;        // factor on a collective's time during compute
  Reduce reduce = Reduce::once;
  After reduce_after = After::pass;
  bool gathers = false;  // parameters are gathered before the first slot that reads them
  bool reduces = true;   // gradients are reduced over replicas in this step
  // zero_stage 3: parameters are gathered before every slot that uses them.
  bool gathers_each = false;
  bool reshard = true;      // false: parameters stay until no micro-batch waits for its backward
  std::size_t buffers = 2;  // units gathered at a time
};

struct StepWalk {
  struct Rank {
    GradientsReady ready;
    std::array<double, 5> longer{};  // s by op type that slots take longer than on a GPU alone
    double gather_wait = 0;          // s of these that slots wait for collectives
    double slowed = 0;               // s of these by which collectives make compute longer
  };
  std::vector<Rank> ranks;
  std::vector<double> class_longer;  // s that all slots of a slot class take longer
};

// Overwrites `walk`.
void walk_step(const StepRecurrence& step, StepWalk& walk);

// Returns stage and unit of each gather of a rank in a step with gathers_each, repeats included.
std::vector<std::pair<std::int32_t, std::int32_t>> gathered_units(const StepRecurrence& step, std::size_t rank);

}  // namespace plumbline::sim
