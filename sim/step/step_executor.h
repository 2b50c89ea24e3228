// Runs a step program on the virtual clock with one representative GPU per pipeline rank: slots in
// program order, messages between stages on the critical path, reductions and gathers beside them, then the
// optimizer step.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/program.h"
#include "model/result/timeline.h"
#include "sim/engine/gpu_model.h"
#include "sim/engine/loop.h"
#include "sim/network/step_links.h"
#include "sim/step/segment_time.h"
#include "sim/step/step_end.h"
#include "sim/step/template_run.h"

namespace plumbline::sim {

struct ExecutionInput {
  const model::StepProgram* program = nullptr;
  std::vector<std::vector<SegmentTime>> template_times;  // [template][segment], waits filled in
  std::int64_t device_sms = 0;
  double p2p_latency = 0;                   // seconds
  double stage_message_bytes = 0;           // one message
  double p2p_rate = 0;                      // B/s that it reaches alone
  const StepLinks* links = nullptr;         // that transfers and messages cross; may be null
  std::vector<OptimizerTiming> optimizers;  // [stage]
  bool synchronize = true;                  // gradients are reduced in this step
  std::int64_t collective_sms = 0;          // that reductions and gathers hold
  bool record = false;                      // fill the timeline
};

struct RankTimes {
  std::array<double, 5> slot_seconds{};       // totals by OpType
  std::array<std::int64_t, 5> slot_counts{};  // by OpType
  std::array<double, 5> exposed{};            // in slots by OpType, no compute kernel runs
  double end = 0;                             // of the last slot
  double gather_wait = 0;                     // in slots, compute has everything but its parameters
  double reduced = 0;                         // end of the last reduction; 0: none
};

struct Execution {
  double pipeline_end = 0;    // last slot of any rank
  double exposed_reduce = 0;  // from then to the end of the last reduction
  double step_end = 0;        // optimizer included
  StepTail tail;              // of it, what follows the slots and is no kernel
  std::vector<RankTimes> ranks;
  std::vector<double> template_seconds;  // [template] mean duration of its slots
  std::uint64_t events = 0;  // that were run; a slot that nothing disturbs is one of them, unless it is recorded
  model::Timeline timeline;  // empty unless recorded
};

// Fails (infeasible) when ranks wait for each other for ever, naming who waits for whom.
// On a loop of its own, where nothing is shared, or on the given one, whose time must stand at 0.
model::Result<Execution> execute(const ExecutionInput& input);
model::Result<Execution> execute(const ExecutionInput& input, Loop& loop);

}  // namespace plumbline::sim
