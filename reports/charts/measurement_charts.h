// Measurements of the device with most of them, as pictures.
#pragma once

#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "reports/charts/line_chart.h"
#include "topologies/device.h"

namespace plumbline::reports {

// Over the CTAs of the copy: time beside it over time alone, per kernel. Products in panels of their own by what their
// algorithm was chosen for (all SMs, or those that are left) and by what keeps the two apart. Copies that were paced
// or went to the host are left out. Alone is the record of the same kernel, chosen for all SMs, nearest in the file,
// of two the earlier: clocks drift over a run.
LineChart partition_chart(const calibrate::Measurements& measurements);

// The SVG of a roofline with the datasheet's roofs, where one is known; kernels beside a copy are left out.
std::string measurements_roofline(const calibrate::Measurements& measurements,
                                  const std::vector<topologies::KnownDevice>& devices);

}  // namespace plumbline::reports
