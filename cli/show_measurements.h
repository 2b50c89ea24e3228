// What `plumbline show measurements` prints and draws, as pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"
#include "topologies/device.h"

namespace plumbline::cli {

// The file's measurements against the shipped datasheets. Notes go to stderr, the table to stdout, a roofline
// to `svg` and a partition_chart to `partition` unless these are empty.
model::Result<void> show_measurements(const std::string& path, const std::string& svg, const std::string& partition);

// The environment in the heading, a table per operation, the failures that were not made good later.
std::string measurements_text(const calibrate::Measurements& measurements,
                              const std::vector<topologies::KnownDevice>& devices);

// Of the device with most measurements; kernels beside a copy are left out.
std::string measurements_roofline(const calibrate::Measurements& measurements,
                                  const std::vector<topologies::KnownDevice>& devices);

}  // namespace plumbline::cli
