// The device that a picture of measurements is about.
#pragma once

#include <string>

#include "calibrate/measurement/measurement.h"

namespace plumbline::cli {

// The one with most measurements, the first of equals; nullptr where there are none.
const std::string* busiest_device(const calibrate::Measurements& measurements);

}  // namespace plumbline::cli
