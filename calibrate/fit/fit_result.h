// What a fit to measurements gives: constants, and how well each family of records is met.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/profile/profile.h"

namespace plumbline::calibrate {

struct FittedFamily {  // of records that one form stands for
  std::string name;
  std::size_t records = 0;
  std::vector<double> errors;    // predicted / measured - 1 of each, in sample
  std::vector<double> left_out;  // of each when fitted to the others; empty where too few records are left
};

struct ProfileFit {
  std::vector<model::Parameter> parameters;  // fitted and measured constants, in the units of `base`
  std::vector<FittedFamily> families;
  std::size_t measured_operators = 0;  // of the parameters
  std::vector<std::string> notes;
};

}  // namespace plumbline::calibrate
