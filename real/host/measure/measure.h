// Measures the times of workloads on devices of the host.
#pragma once

#include <vector>

#include "model/base/error.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"
#include "real/measure/rounds.h"
#include "real/measure/workload.h"

namespace plumbline::real::host {

struct MeasureOptions {
  DeviceOptions device = {.clock = ClockKind::cpu};  // workloads set the cores
  RoundOptions rounds;
  // The transport of this process where ranks are processes; nullptr: ranks are threads of this process. All processes
  // measure at the same time, and group workloads together; only rank 0 has the times of those. With a budget the
  // processes may end after different rounds, so leave it unset.
  Transport* transport = nullptr;
};

// Returns the series of measure_in_rounds(). Infeasible: the host cannot compute an operator, too little memory is
// free, or a kernel or message failed.
model::Result<std::vector<Series>> measure(const std::vector<Workload>& workloads, const MeasureOptions& options,
                                           const MeasureObserver& observer);

}  // namespace plumbline::real::host
