// Errors of fits to component tables on the shapes that the fits did not use.
#pragma once

#include <string>
#include <vector>

#include "calibrate/fit/held_out.h"
#include "calibrate/validate/component_case.h"

namespace plumbline::reports {

// Returns a table of one GPU's families, each with its tables and the errors of a datasheet roofline; empty without
// rows.
std::string held_out_text(const std::string& gpu, const std::vector<calibrate::HeldOut>& tables);

// Returns the families of every profile with their goals.
std::string component_table(const calibrate::ComponentComparison& comparison);

}  // namespace plumbline::reports
