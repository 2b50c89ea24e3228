// The cells of a measurement in a table for people.
#pragma once

#include <initializer_list>
#include <string>

#include "calibrate/measurement/measurement.h"
#include "model/profile/cluster.h"

namespace plumbline::cli {

// The words that are not empty.
std::string joined(std::initializer_list<std::string> words, const char* separator);

// "4096x24576x1536" for a product, "4 x 8192x4096x7168" for a group of them, else the extents by name.
std::string shape_text(const calibrate::Subject& subject);
// Cache state, cores of a CPU, variant, what ran beside it, SMs that the algorithm was chosen for.
std::string variant_text(const calibrate::Measurement& measurement);
std::string spread_text(const calibrate::Measurement& measurement);  // p10 to p90, over p50
std::string rate_text(const calibrate::Measurement& measurement);    // TFLOP/s, else GB/s
std::string check_text(const calibrate::Measurement& measurement);

// Of the datasheet: products against the tensor cores, what only moves data against the memory. Transfers over a
// link have no cache state and no share.
std::string share_text(const calibrate::Measurement& measurement, const model::Device* device);

}  // namespace plumbline::cli
