// Times of a plan's operators on a GPU as measurements in the common form.
#pragma once

#include <string>

#include "calibrate/measurement/measurement.h"
#include "real/cuda/measure/stage_measure.h"

namespace plumbline::cli {

// One record per series that has samples, behind one of the environment. `date`: ISO 8601.
calibrate::Measurements stage_records(const real::cuda::StageMeasurement& measured, const std::string& date);

}  // namespace plumbline::cli
