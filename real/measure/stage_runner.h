// Times a stage on one rank as the step runs it: its operators back to back on the compute stream, and the dispatches
// and combines of expert tokens, each alone and overlapped with the other. It needs a device with concurrent streams,
// and a communicator of the plan's ranks or one that emulates them.
#pragma once

#include <vector>

#include "real/executor/communicator.h"
#include "real/executor/device.h"
#include "real/measure/runner.h"

namespace plumbline::real {

struct StageConditions {
  int sms = 1;                // of the device
  int communication_sms = 0;  // SMs that a dispatch or combine reserves
  // Seconds of computation before the timed part, so that clocks and power are those of training. Power limits act
  // within a tenth of a second.
  double soak_s = 0.3;
};

// An operator's time counts from the end of the previous one: it includes the gap between the kernels, and times add up
// to that of the stream. Waits for the host to launch are left out. An operator counts as overlapped if a dispatch or
// combine ran during nine tenths of its time, and likewise for those. How many tokens each rank receives is decided
// once, before the timed part. Collectives and copies to a host are not run. All arguments must outlive the workload.
RunnableWorkload stage_workload(const Sequence& sequence, Device& device, Communicator& communicator,
                                const StageConditions& conditions);

// --- Finds which kernels of one stream ran while another stream was busy ---

// Returns the fraction of [start, end) in which a record of one stream, sorted by start, runs; 0 for an empty interval.
double covered_share(double start, double end, const std::vector<KernelRecord>& records);

}  // namespace plumbline::real
