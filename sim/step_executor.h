// Runs a step program on the virtual clock with one representative GPU per pipeline rank: slots in
// program order, messages between stages on the critical path, then the optimizer step.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program.h"
#include "model/timeline.h"
#include "sim/loop.h"
#include "sim/network/step_links.h"
#include "sim/segment_time.h"

namespace plumbline::sim {

struct OptimizerTiming {      // per stage, seconds
  double reduce = 0;          // gradient reduction
  double update = 0;          // AdamW on this rank's shard
  double exposed_gather = 0;  // the part of the parameter gather that nothing hides
};

struct ExecutionInput {
  const model::StepProgram* program = nullptr;
  std::vector<std::vector<SegmentTime>> template_times;  // [template][segment], waits filled in
  std::int64_t device_sms = 0;
  double hop_latency = 0;                   // seconds
  double hop_bytes = 0;                     // one message
  double hop_rate = 0;                      // B/s that it reaches alone
  const StepLinks* links = nullptr;         // that transfers and messages cross; may be null
  std::vector<OptimizerTiming> optimizers;  // [stage]
  bool overlap_gradient_reduce = true;
  bool record = false;  // fill the timeline
};

struct RankTimes {
  std::array<double, 5> slot_seconds{};       // totals by OpType
  std::array<std::int64_t, 5> slot_counts{};  // by OpType
  std::array<double, 5> exposed{};            // in slots by OpType, no compute kernel runs
  double end = 0;                             // of the last slot
};

struct Execution {
  double pipeline_end = 0;  // last slot of any rank
  double step_end = 0;      // optimizer included
  std::vector<RankTimes> ranks;
  std::vector<double> template_seconds;  // [template] mean duration of its slots
  std::uint64_t events = 0;
  model::Timeline timeline;  // empty unless recorded
};

// Fails (infeasible) when ranks wait for each other for ever, naming who waits for whom.
// On a loop of its own, where nothing is shared, or on the given one, whose time must stand at 0.
model::Result<Execution> execute(const ExecutionInput& input);
model::Result<Execution> execute(const ExecutionInput& input, Loop& loop);

// Duration of one template on a free lane, seconds.
double template_seconds(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times,
                        std::int64_t device_sms);

}  // namespace plumbline::sim
