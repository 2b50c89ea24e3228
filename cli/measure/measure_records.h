// Measured samples as records in the common form (calibrate/measurement/measurement.h).
#pragma once

#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "real/cuda/measure/stage_measure.h"
#include "real/host/measure/environment.h"
#include "real/host/measure/measure.h"
#include "real/measure/kernel_case/case_machine.h"
#include "real/measure/rounds.h"

namespace plumbline::cli {

// Return one record as JSON Lines: the environment of a run, a subject of a case with its samples (at least one), a
// case that failed. `date`: ISO 8601.
std::string environment_line(const real::CaseMachine& machine, const std::string& date);
std::string measurement_line(const real::CaseMachine& machine, const real::KernelCase& what, const real::Series& series,
                             const real::Findings& findings, const std::string& date);
std::string failure_line(const real::CaseMachine& machine, const real::KernelCase& what, const std::string& reason,
                         const std::string& date);

// Return the records of the host's cases, and of a plan's operators on a GPU: the environment, then one record per
// series with samples.
calibrate::Measurements host_records(const std::vector<real::Series>& series,
                                     const real::host::Environment& environment, real::host::ClockKind clock,
                                     const std::string& date);
calibrate::Measurements plan_records(const real::cuda::StageMeasurement& measured, const std::string& date);

}  // namespace plumbline::cli
