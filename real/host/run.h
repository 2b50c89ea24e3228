// Runs a plan on this machine's cores.
#pragma once

#include "model/base/error.h"
#include "real/executor/run.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"

namespace plumbline::real::host {

// One rank's part, as real::run_rank; its text is prefetched where the device has threads.
model::Result<RunResult> run_rank(const RunInput& input, const RunOptions& options, const DeviceOptions& device,
                                  Transport& transport, const StepObserver& observer);

// All ranks as threads of this process; the observer is rank 0's.
model::Result<RunResult> run_in_process(const RunInput& input, const RunOptions& options, const DeviceOptions& device,
                                        const StepObserver& observer);

}  // namespace plumbline::real::host
