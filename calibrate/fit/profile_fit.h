// A profile of a host or a GPU fitted to its measurements: what the cost functions (model/cost/) ask for, as far as
// records tell it. Forms: docs/measuring.md.
#pragma once

#include <string>
#include <vector>

#include "calibrate/fit/fit_records.h"
#include "calibrate/fit/fit_result.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

// `source` says in every constant where its records are from. `base` is the profile that the new one extends; it must
// have every constant that is fitted.
ProfileFit fit_profile(const FitRecords& records, const model::Profile& base, const std::string& source);

// A profile's file with these constants, by section.
std::string profile_text(const std::string& name, const std::string& description, const std::string& extends,
                         std::vector<model::Parameter> parameters);

}  // namespace plumbline::calibrate
