// A trace of one GPU's kernels as a verb's input: a profiler's file, or the CSV that `import kineto` makes of one.
#pragma once

#include <string>

#include "calibrate/match/trace_comparison.h"
#include "model/base/error.h"
#include "model/result/timeline.h"

namespace plumbline::cli {

struct KernelTrace {
  model::Timeline timeline;
  calibrate::TraceOrigin origin;  // without a pipeline rank
  std::string path, device;       // the device's own name; empty: unknown
};

// Returns whether a .json or .json.gz file is a trace of a profiler, which no result of a step is.
bool is_profiler_trace(const std::string& path);

// Reads a trace, or a CSV by path or shipped name. `classes`: a file of kernel classes; empty: the shipped one. Errors
// are those of calibrate::import_kineto and read_chunk.
model::Result<KernelTrace> read_kernel_trace(const std::string& path_or_name, const std::string& classes);

}  // namespace plumbline::cli
