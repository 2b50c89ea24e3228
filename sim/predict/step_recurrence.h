// The closed form of a step on a schedule's table: the recurrence of its ops, and every rank's slots with the
// reductions and gathers that depend on them. It equals the event simulation where compute and collectives do not slow
// each other down:
//   start of a collective = max(end of the one before it, end of what it depends on)
//   start of a segment    = max(its start within its slot, ends of the gathers it needs)
// sim/predict/gather_walk.h does the same where parameters are gathered before every use.
#pragma once

#include <array>
#include <cstdint>
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
    double copy = 0;  // of the reduced gradient to the host
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
  double reduce_tail = 0;     // from the start of the slot to the end of its reductions on an idle stream
};

// The inputs of the recurrence for one plan.
struct StepRecurrence {
  enum class Reduce : std::uint8_t {
    once,         // after the last slot that writes the gradients
    once_at_end,  // after the last slot of the rank
    each,         // after every slot that writes the gradients
    each_waiting  // the same, and the next slot waits for them
  };
  const model::ScheduleTable* table = nullptr;
  std::vector<const TemplateRun*> runs;  // [slot class]
  std::vector<const SlotSync*> syncs;    // [slot class]
  std::array<double, 5> waits{};         // s by op type that the recurrence adds to slots
  double p2p = 0;                        // s of a message between two ranks
  Reduce reduce = Reduce::once;
  bool gathers = false;  // parameters are gathered before the first slot that reads them
  bool reduces = true;   // gradients are reduced in this step
  // zero_stage 3: parameters are gathered before every slot that uses them.
  bool gathers_each = false;
  bool reshard = true;      // false: parameters stay until no micro-batch waits for its backward
  std::size_t buffers = 2;  // units gathered at a time
};

struct StepWalk {
  std::vector<GradientsReady> ranks;  // by the rank's own slots
  std::vector<double> gather_waits;   // s, [rank] over all slots
  // For a single rank: s in its slots by op type, waits included. Slots of several ranks take slot_costs().
  std::array<double, 5> slot_seconds{};
};

// Returns the seconds of an op in the recurrence, by slot class.
std::vector<double> slot_costs(const StepRecurrence& step);

// Overwrites `walk`, for a step without gathers_each. alone: the slots of the only rank follow each other directly.
void walk_step(const StepRecurrence& step, bool alone, StepWalk& walk);

// Returns the mean wait of the rank's slots by op type, in seconds, where they run back to back.
std::array<double, 5> mean_waits(const StepRecurrence& step, std::size_t rank);

}  // namespace plumbline::sim
