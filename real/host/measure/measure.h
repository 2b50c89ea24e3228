// Takes the times of workloads on devices of the host.
#pragma once

#include <vector>

#include "model/base/error.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"
#include "real/measure/rounds.h"
#include "real/measure/workload.h"

namespace plumbline::real::host {

struct MeasureOptions {
  DeviceOptions device = {.clock = ClockKind::cpu};  // but its cores
  RoundOptions rounds;
  // Of this process's rank, where ranks are processes: all of them measure at the same time, what they do together with
  // each other. Only rank 0 has those times, and only without a budget do they end together. nullptr: messages and
  // collectives go between threads.
  Transport* transport = nullptr;
};

// What measure_in_rounds() says. Infeasible: an operator that the host cannot compute, more memory than is free, a
// kernel or message that failed.
model::Result<std::vector<Series>> measure(const std::vector<Workload>& workloads, const MeasureOptions& options,
                                           const MeasureObserver& observer);

}  // namespace plumbline::real::host
