// Reductions and gathers of a rank without an event loop: the recurrence that the event simulation follows where
// compute and collectives do not slow each other down.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/program/program.h"
#include "model/schedule/chunk_costs.h"
#include "sim/step/step_end.h"
#include "sim/step/step_executor.h"

namespace plumbline::sim {

// What each op of a program takes on a free lane, by the stages that it works for.
class TemplateCosts final : public model::ChunkCosts {
 public:
  // waits: seconds more by op type; hop: of a message between two ranks, s.
  TemplateCosts(const model::StepProgram& program, const std::vector<TemplateRun>& runs,
                const std::array<double, 5>& waits, double hop);
  double of(const model::ScheduleOp& op) const override;

 private:
  std::size_t index(model::OpType type, std::int32_t f_stage, std::int32_t b_stage) const;

  std::vector<std::size_t> kinds_;  // of stages, from 1; 0: no stage
  std::size_t count_ = 1;
  std::vector<double> seconds_;
};

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
