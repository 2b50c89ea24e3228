// Runs a plan on the cores of this machine.
#pragma once

#include "model/base/error.h"
#include "real/executor/inference/generate.h"
#include "real/executor/run.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"

namespace plumbline::real::host {

// Runs one rank's part like real::run_rank, and prefetches its text where the device has threads.
model::Result<RunResult> run_rank(const RunInput& input, const RunOptions& options, const DeviceOptions& device,
                                  Transport& transport, const StepObserver& observer);

// Runs all ranks as threads of this process; the observer is called on rank 0.
model::Result<RunResult> run_in_process(const RunInput& input, const RunOptions& options, const DeviceOptions& device,
                                        const StepObserver& observer);

// The same for tokens that a trained model generates, like real::generate.
model::Result<Generation> generate_rank(const RunInput& input, const GenerateOptions& options,
                                        const DeviceOptions& device, Transport& transport);
model::Result<Generation> generate_in_process(const RunInput& input, const GenerateOptions& options,
                                              const DeviceOptions& device);

}  // namespace plumbline::real::host
