// Times taken on the host as measurements in the common form.
#pragma once

#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "real/host/measure/environment.h"
#include "real/host/measure/measure.h"

namespace plumbline::cli {

// One record per series that has samples, behind one of the environment. `date`: ISO 8601.
calibrate::Measurements host_records(const std::vector<real::Series>& series,
                                     const real::host::Environment& environment, real::host::ClockKind clock,
                                     const std::string& date);

}  // namespace plumbline::cli
