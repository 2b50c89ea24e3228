// Kernel cases that a device measured as measurements in the common form.
#pragma once

#include <string>

#include "calibrate/measurement/measurement.h"
#include "real/measure/kernel_case/case_machine.h"
#include "real/measure/rounds.h"

namespace plumbline::cli {

// Of a device's readings.
calibrate::Clock clock_of(const real::ClockReading& reading);

// JSON Lines, one each: what opens a run, a subject of a case with its samples (at least one), a case that failed.
// `date`: ISO 8601.
std::string environment_line(const real::CaseMachine& machine, const std::string& date);
std::string measurement_line(const real::CaseMachine& machine, const real::KernelCase& what, const real::Series& series,
                             const real::Findings& findings, const std::string& date);
std::string failure_line(const real::CaseMachine& machine, const real::KernelCase& what, const std::string& reason,
                         const std::string& date);

}  // namespace plumbline::cli
