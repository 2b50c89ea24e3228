// A profile of a host or a GPU fitted to its measurements: those constants of the cost functions (model/cost/) that the
// records determine. Forms: docs/measuring.md.
#pragma once

#include <string>
#include <vector>

#include "calibrate/fit/fit_records.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

// Fits the constants. `source` is written into every constant as the origin of its records. `base` is the profile that
// the new one extends; it must have every constant that is fitted.
ProfileFit fit_profile(const FitRecords& records, const model::Profile& base, const std::string& source);

struct ProfileHeading {
  std::string name, description, extends;
  std::vector<std::string> devices = {};  // for which the constants hold; empty: those of `extends`
  std::string stack = {};                 // which people run on the GPU; empty: that of `extends`
  std::vector<std::string> about = {};    // lines of a comment before everything else
};

// Returns the TOML text of a profile with these constants, by section.
std::string profile_text(const ProfileHeading& heading, std::vector<model::Parameter> parameters,
                         const std::vector<model::ConstantFit>& fits = {});
std::string profile_text(const std::string& name, const std::string& description, const std::string& extends,
                         std::vector<model::Parameter> parameters);

}  // namespace plumbline::calibrate
