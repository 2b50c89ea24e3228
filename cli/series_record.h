// The samples of a case as a measurement, without what depends on the machine.
#pragma once

#include "calibrate/measurement/measurement.h"
#include "real/measure/rounds.h"

namespace plumbline::cli {

// What a record says of a case, without program, device and date.
calibrate::Subject subject_record(const real::Subject& subject);

// Requires at least one sample.
calibrate::Measurement series_record(const real::Series& series);

}  // namespace plumbline::cli
