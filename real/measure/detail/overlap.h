// Finds which kernels of one stream ran while another stream was busy.
#pragma once

#include <vector>

#include "real/executor/device.h"

namespace plumbline::real {

// Returns the fraction of [start, end) in which a record of one stream, sorted by start, runs; 0 for an empty interval.
double covered_share(double start, double end, const std::vector<KernelRecord>& records);

// Returns the records of the stream, sorted by start.
std::vector<KernelRecord> of_stream(const std::vector<KernelRecord>& records, model::Stream stream);

}  // namespace plumbline::real
