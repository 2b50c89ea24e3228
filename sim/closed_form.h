// Reductions and gathers of a rank without an event loop: the recurrence that the event simulation follows where
// compute and collectives do not slow each other down.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program.h"
#include "sim/step_end.h"
#include "sim/step_executor.h"

namespace plumbline::sim {

struct RankWalk {                    // s
  GradientsReady ready;              // end of the last slot and of the last reduction
  double gather_wait = 0;            // in all slots
  std::vector<double> slot_seconds;  // [op], waits for parameters included
  std::vector<double> slot_waits;    // [op]
};

// One rank's slots in order, each no earlier than starts[op] (empty: back to back); runs[template] on a free lane.
//   start of a collective = max(end of the one before it, what lets it start)
//   start of a segment    = max(where its slot would have it, ends of the gathers it needs)
RankWalk walk(const model::StepProgram& program, std::size_t rank, const std::vector<TemplateRun>& runs,
              const std::vector<OptimizerTiming>& timings, const std::vector<double>& starts, bool reduces);

}  // namespace plumbline::sim
