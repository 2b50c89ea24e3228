// Measurements as people read them.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "topologies/device.h"

namespace plumbline::reports {

// The environment of each device in the heading, a table per operation with shares of the datasheets' peaks, the
// failures that were not made good later.
std::string measurements_text(const calibrate::Measurements& measurements,
                              const std::vector<topologies::KnownDevice>& devices);

// The words that are not empty.
std::string joined(std::initializer_list<std::string> words, const char* separator);

// "4096x24576x1536" for a product, "4 x 8192x4096x7168" for a group of them, else the extents by name.
std::string shape_text(const calibrate::Subject& subject);
// Cache state, cores of a CPU, variant, what ran beside it, SMs that the algorithm was chosen for.
std::string variant_text(const calibrate::Measurement& measurement);

}  // namespace plumbline::reports
