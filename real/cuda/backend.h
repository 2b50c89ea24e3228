// The entry points of execution on this process's GPU, free of CUDA headers. Every build has them; a build without CUDA
// returns an error that names what is missing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/executor/control_channel.h"
#include "real/executor/run.h"
#include "real/measure/clock_reading.h"

namespace plumbline::real::cuda {

enum class GpuPresence { ready, missing, not_built };
struct GpuReport {
  GpuPresence presence = GpuPresence::not_built;
  std::string message;  // one line: the device's name, or why there is none
};
// Reports on device `ordinal` of those that CUDA shows this process.
GpuReport describe_gpu(int ordinal);

// Returns the device of the process with this index on its node: the one of that number, or the only visible one.
int usual_gpu(int local_rank);

struct GpuOptions {
  int device = 0;                            // CUDA's ordinal
  std::vector<std::string> library_folders;  // searched before the default folders
  std::optional<int> target_sms;             // SM count given to libraries; 0: all; none: from the plan's policy
  std::optional<std::int32_t> emulated;      // executes this pipeline rank alone; its peers are emulated
  bool kernels = false;                      // record every kernel of the last step
};

struct GpuRunResult {
  RunResult run;
  std::string kernels;            // a Chrome trace of the last step's kernels; empty if none was requested
  std::string kernels_missing;    // the reason if there is none
  std::int64_t memory_bytes = 0;  // device memory in use by all processes: the maximum after a step
  std::string transports;         // transports of tokens between ranks, for display; empty: there was one rank
};

// Receives the figures of a step, and the device's mean clocks and power while it ran.
using GpuObserver = std::function<void(const StepFigures&, const ClockReading&)>;

// Executes this process's rank of the plan; every rank of the channel calls it. Errors are those of real::run_rank. A
// missing device, a missing library and too little memory are infeasible, too.
model::Result<GpuRunResult> run_on_gpu(const RunInput& input, const RunOptions& options, const GpuOptions& gpu,
                                       ControlChannel& channel, const GpuObserver& observer);

}  // namespace plumbline::real::cuda
