// What it costs a kernel to leave SMs to a copy beside it, as a picture.
#pragma once

#include "calibrate/measurement/measurement.h"
#include "reports/charts/line_chart.h"

namespace plumbline::cli {

// Over the CTAs of the copy: time beside it over time alone, per kernel. Products in panels of their own by what their
// algorithm was chosen for (all SMs, or those that are left) and by what keeps the two apart. Copies that were paced
// or went to the host are left out. Alone is the record of the same kernel, chosen for all SMs, nearest in the file,
// of two the earlier: clocks drift over a run. Of the device with most measurements.
reports::LineChart partition_chart(const calibrate::Measurements& measurements);

}  // namespace plumbline::cli
