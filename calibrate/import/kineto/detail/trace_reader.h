// Reads a trace file into the compact records of trace.h.
#pragma once

#include <string>

#include "calibrate/import/kineto/trace.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

// Reads a trace, .json or .json.gz; memory grows with the GPU's work and the operators of autograd. Of a file that is
// cut off, the complete events are read. Input errors: those of ByteSource and EventSplitter; events of the GPU with
// missing, negative or unreadable fields.
model::Result<Trace> read_trace(const std::string& path, const Progress& progress);

}  // namespace plumbline::calibrate
