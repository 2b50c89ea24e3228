// Which of the kernels of one stream ran while another stream was busy.
#pragma once

#include <vector>

#include "real/executor/device.h"

namespace plumbline::real {

// The share of [start, end) in which one of the records runs; they are of one stream, in order. 0 of an empty interval.
double covered_share(double start, double end, const std::vector<KernelRecord>& records);

// Those of the stream, by start.
std::vector<KernelRecord> of_stream(const std::vector<KernelRecord>& records, model::Stream stream);

}  // namespace plumbline::real
