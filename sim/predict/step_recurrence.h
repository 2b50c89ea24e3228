// The closed form of a step on a schedule's table: the recurrence of its ops, and beside it every rank's slots with the
// reductions and gathers that depend on them. It follows the event simulation where compute and collectives do not slow
// each other down:
//   start of a collective = max(end of the one before it, what lets it start)
//   start of a segment    = max(where its slot would have it, ends of the gathers it needs)
// sim/predict/gather_walk.h does the same where parameters are gathered before every use.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/schedule/schedule_table.h"
#include "sim/step/step_end.h"
#include "sim/step/template_run.h"

namespace plumbline::sim {

// What a slot starts or waits for on the stream of collectives.
struct SlotSync {
  struct Part {
    std::int32_t segment = -1;  // whose end starts a reduction, or whose start waits for a gather; -1: of the slot
    double seconds = 0;
    double copy = 0;  // of the reduced gradient to the host
  };
  struct Use {  // of a unit's parameters
    bool forward = true;
    std::int32_t unit = 0;
    std::int32_t first = 0, last = 0;  // segments
    double seconds = 0;                // of its gather
  };
  std::vector<Part> reduces;  // in the order in which they start
  std::vector<Part> gathers;  // in the order in which slots need them; all start with the step
  std::vector<Use> uses;      // zero_stage 3: by first segment
  double reduce_seconds = 0;  // of all
  double reduce_tail = 0;     // from the start of the slot to the end of its reductions on a free stream
};

// The closed form's view of a plan.
struct StepRecurrence {
  enum class Reduce : std::uint8_t {
    once,         // after the last slot that writes them
    once_at_end,  // after the last slot of the rank
    each,         // after every slot that writes them
    each_waiting  // and the next slot waits
  };
  const model::ScheduleTable* table = nullptr;
  std::vector<const TemplateRun*> runs;  // [slot class]
  std::vector<const SlotSync*> syncs;    // [slot class]
  std::array<double, 5> waits{};         // s that slots of an op type take longer in the recurrence
  double p2p = 0;                        // s of a message between two ranks
  Reduce reduce = Reduce::once;
  bool gathers = false;  // parameters, before the first slot that reads them
  bool reduces = true;   // in this step
  // zero_stage 3: parameters are gathered before every slot that uses them.
  bool gathers_each = false;
  bool reshard = true;      // else they stay until no micro-batch waits for its backward
  std::size_t buffers = 2;  // units gathered at a time
};

struct StepWalk {
  std::vector<GradientsReady> ranks;  // each by its own slots
  std::vector<double> gather_waits;   // [rank] in all slots
  // Of a rank that is alone: s in its slots by op type, waits included. Slots of others last as long as their costs.
  std::array<double, 5> slot_seconds{};
};

// Of each op in the recurrence, by slot class, s.
std::vector<double> slot_costs(const StepRecurrence& step);

// Of a step without gathers_each. alone: one rank, whose slots follow each other whatever the recurrence says. `walk`
// is written over.
void walk_step(const StepRecurrence& step, bool alone, StepWalk& walk);

// Mean wait of the rank's slots by op type where they run back to back.
std::array<double, 5> mean_waits(const StepRecurrence& step, std::size_t rank);

}  // namespace plumbline::sim
