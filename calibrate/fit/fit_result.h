// The result of a fit to measurements: constants, and the errors of each family of records.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/profile/profile.h"

namespace plumbline::calibrate {

struct FittedFamily {  // the records that one form predicts
  std::string name;
  std::size_t records = 0;
  std::vector<double> errors;  // predicted / measured - 1 of each, in sample
  std::vector<double>
      left_out;  // errors of each record when fitted to the others; empty where too few records are left
};

struct ProfileFit {
  std::vector<model::Parameter> parameters;  // fitted and measured constants, in the units of `base`
  std::vector<FittedFamily> families;
  std::size_t measured_operators = 0;  // how many of the parameters
  std::vector<std::string> notes;
};

}  // namespace plumbline::calibrate
