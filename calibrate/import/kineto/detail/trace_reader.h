// From the file of a trace to what is kept of it.
#pragma once

#include <string>

#include "calibrate/import/kineto/trace.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

// Reads a trace, .json or .json.gz, in memory that grows with the GPU's work only. Input errors: what
// ByteSource and EventSplitter refuse; events of the GPU with missing, negative or unreadable fields.
model::Result<Trace> read_trace(const std::string& path, const Progress& progress);

}  // namespace plumbline::calibrate
