// A profile that was fitted to measurements, as people read it.
#pragma once

#include <string>

#include "calibrate/fit/fit_records.h"
#include "calibrate/fit/profile_fit.h"

namespace plumbline::reports {

// "a CPU, cpu clock"; of a GPU its name alone.
std::string machine_text(const calibrate::FitRecords& records);

// The machine, the number of constants, and a table of the families with the errors of their forms.
std::string fit_text(const calibrate::ProfileFit& fit, const calibrate::FitRecords& records);

}  // namespace plumbline::reports
