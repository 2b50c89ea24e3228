// Measurements, and a profile that was fitted to them, as people read them and as pictures.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "calibrate/fit/fit_records.h"
#include "calibrate/fit/profile_fit.h"
#include "calibrate/measurement/measurement.h"
#include "reports/charts/line_chart.h"
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

// "a CPU, cpu clock"; of a GPU its name alone.
std::string machine_text(const calibrate::FitRecords& records);

// The machine, the number of constants, and a table of the families with the errors of their forms.
std::string fit_text(const calibrate::ProfileFit& fit, const calibrate::FitRecords& records);

// Over the CTAs of the copy: time beside it over time alone, per kernel. Products in panels of their own by what their
// algorithm was chosen for (all SMs, or those that are left) and by what keeps the two apart. Copies that were paced
// or went to the host are left out. Alone is the record of the same kernel, chosen for all SMs, nearest in the file,
// of two the earlier: clocks drift over a run.
LineChart partition_chart(const calibrate::Measurements& measurements);

// The SVG of a roofline with the datasheet's roofs, where one is known; kernels beside a copy are left out.
std::string measurements_roofline(const calibrate::Measurements& measurements,
                                  const std::vector<topologies::KnownDevice>& devices);

}  // namespace plumbline::reports
