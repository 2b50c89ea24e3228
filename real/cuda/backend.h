// The GPU of this process for who knows nothing of CUDA: every build has it, and says what it lacks.
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
// Device `ordinal` of those that CUDA shows this process.
GpuReport describe_gpu(int ordinal);

// The device of a process that is the so manieth of its node: the one of that number, or the only one it is shown.
int usual_gpu(int local_rank);

struct GpuOptions {
  int device = 0;                            // CUDA's number of it
  std::vector<std::string> library_folders;  // looked into before the usual places
  std::optional<int> target_sms;             // that libraries reckon with, 0: all; none: as the plan's policy says
  std::optional<std::int32_t> emulated;      // this pipeline rank alone; peers are stood in for
  bool kernels = false;                      // record every kernel of the last step
};

struct GpuRunResult {
  RunResult run;
  std::string kernels;            // a Chrome trace of the last step's kernels; empty where none was asked for
  std::string kernels_missing;    // why there is none
  std::int64_t memory_bytes = 0;  // of the device, by whomever: the most in use after a step
  std::string transports;         // by which tokens went between ranks; empty: there was one
};

// Figures of a step, and what the device read on the average while it ran.
using GpuObserver = std::function<void(const StepFigures&, const ClockReading&)>;

// This process's rank of the plan; every rank of the channel calls it. Errors as real::run_rank; infeasible, too: no
// device, a library that is missing, too little memory.
model::Result<GpuRunResult> run_on_gpu(const RunInput& input, const RunOptions& options, const GpuOptions& gpu,
                                       ControlChannel& channel, const GpuObserver& observer);

}  // namespace plumbline::real::cuda
