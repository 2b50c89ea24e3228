// Runs a step program on the virtual clock, with one representative GPU per pipeline rank or with every GPU of a fleet:
// slots in program order, messages between stages on the critical path, reductions and gathers overlapped with them,
// then the optimizer step.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "model/program/program.h"
#include "model/result/timeline.h"
#include "sim/engine/gpu_model.h"
#include "sim/engine/loop.h"
#include "sim/network/step_links.h"
#include "sim/step/fleet.h"
#include "sim/step/recording.h"
#include "sim/step/segment_time.h"
#include "sim/step/step_end.h"
#include "sim/step/template_run.h"

namespace plumbline::sim {

struct ExecutionInput {
  const model::StepProgram* program = nullptr;
  std::vector<std::vector<SegmentTime>>
      template_times;  // [template][segment], waits included; with a fleet there are none
  std::int64_t device_sms = 0;
  double p2p_latency = 0;                   // seconds
  double stage_message_bytes = 0;           // of what a rank sends of one message
  double p2p_rate = 0;                      // B/s of a message alone
  const StepLinks* links = nullptr;         // crossed by transfers and messages; may be null
  std::vector<GroupLinks> groups;           // crossed by dense collectives, by WireLoad::group; may be empty
  std::vector<OptimizerTiming> optimizers;  // [stage]
  bool synchronize = true;                  // gradients are reduced in this step
  std::int64_t collective_sms = 0;          // held by reductions and gathers
  double collective_slowdown = 1;           // factor on their time while the GPU computes
  Recording record;                         // what fills the timeline
  const Fleet* fleet = nullptr;             // every GPU; nullptr: one GPU for each pipeline rank
};

// Returns the links of a pipeline rank's dense collectives, by WireLoad::group.
std::vector<const RankLinks*> links_of_groups(const ExecutionInput& input, std::size_t rank);

inline double total(const std::array<double, 5>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

struct RankTimes {
  std::array<double, 5> slot_seconds{};       // totals by OpType
  std::array<std::int64_t, 5> slot_counts{};  // by OpType
  std::array<double, 5> exposed{};            // in slots by OpType, while no compute kernel runs
  double end = 0;                             // of the last slot
  double gather_wait = 0;                     // in slots, while compute waits for parameters only
  double reduced = 0;                         // end of the last reduction; 0: none
  double slowed = 0;                          // in closed form: by how much collectives made compute longer
  double barrier_wait = 0;                    // in slots, at barriers for other GPUs of a fleet
};

struct Execution {
  double pipeline_end = 0;               // last slot of any rank
  double exposed_reduce = 0;             // from pipeline_end to the end of the last reduction
  double step_end = 0;                   // optimizer included
  StepTail tail;                         // the part of step_end after the slots that is not kernels
  std::vector<RankTimes> ranks;          // of GPUs with a fleet, else of pipeline ranks
  std::vector<double> template_seconds;  // [template] mean duration of its slots
  std::uint64_t events = 0;              // number run; an undisturbed slot is one event unless recorded
  model::Timeline timeline;              // empty unless recorded
};

// Returns the mean of executions of one program, of which `share` are as the first and the others as the second.
// Counts, times of templates and the timeline are those of the first.
Execution mean_of(Execution first, const Execution& second, double share);

// Returns the means over the replicas of each pipeline rank of the times of all GPUs.
std::vector<RankTimes> mean_over_replicas(const std::vector<RankTimes>& gpus, std::int64_t replicas);

// Returns an infeasible error when ranks wait for each other forever, with the ranks and what each waits for. Runs on
// the given loop, whose time must be 0, or on a loop of its own that shares no links.
model::Result<Execution> execute(const ExecutionInput& input);
model::Result<Execution> execute(const ExecutionInput& input, Loop& loop);

}  // namespace plumbline::sim
