// A validation case over component tables: for each profile that a recipe makes, the errors of its constants on the
// shapes that no fit used, family by family. docs/validation.md describes the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/fit/held_out.h"
#include "calibrate/fit/recipe/profile_maker.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

struct ComponentGoal {
  std::string family;
  double median = 0;          // wanted of |predicted / measured - 1|
  double limit = 0;           // on the median, above which the case fails
  std::optional<double> p90;  // wanted of the 90th percentile

  bool met_by(const HeldOutSummary& errors) const { return errors.median <= median && errors.p90 <= p90.value_or(1); }
};

struct ComponentCase {  // the content of a case file
  std::string name;
  std::vector<std::string> profiles;
  std::vector<ComponentGoal> goals;
};

struct ComponentErrors {  // of one profile
  std::string profile;
  std::vector<HeldOutSummary> summaries;
};

struct ComponentComparison {
  ComponentCase definition;
  std::vector<ComponentErrors> profiles;

  const ComponentGoal* goal(const std::string& family) const;  // nullptr: none
  bool holds() const;                                          // every family of every profile is within its limit
};

// Whether a case file is of this form; false for unreadable files.
bool is_component_case(const std::string& path);

// Reads a case. Input errors name file, line and key.
model::Result<ComponentCase> load_component_case(const std::string& path);

// Makes the profiles; errors are those of ProfileMaker::make().
model::Result<ComponentComparison> compare_components(const ComponentCase& definition, ProfileMaker& maker);

}  // namespace plumbline::calibrate
