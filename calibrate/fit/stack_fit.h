// The few constants of a stack that a user's own measured steps determine.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/provenance.h"
#include "sim/predict/inputs.h"

namespace plumbline::calibrate {

struct MeasuredStep {
  std::string id, set;
  sim::Inputs inputs;  // with the constants of the stack that is extended
  double seconds = 0;
};

// Constants that a fit multiplies by one factor.
struct StackFactor {
  std::string name;                               // "host time", ...
  double factor = 1, uncertainty = 0, prior = 0;  // relative standard deviations, after and before the fit
  std::vector<model::Parameter> constants;        // with their new values, of kind fitted
};

struct StackFit {
  std::vector<StackFactor> factors;
  struct Row {
    std::string id;
    double before = 0, after = 0, left_out = 0;  // relative errors; the last when predicted from a fit to the others
  };
  std::vector<Row> rows;
};

// Fits factors on families of constants to the rows: host times, passes of unfused kernels, slowdowns of what overlaps,
// and the clock that is held. Least squares of ln(predicted / measured) in closed form, with a prior at the values of
// the stack whose deviation is their uncertainty (0.3 where none is stated). Families on which no step depends are left
// out. Input errors: less than three rows, rows whose profiles have none of the constants that steps depend on; other
// errors are those of Predictor::closed_form().
model::Result<StackFit> fit_stack(const std::vector<MeasuredStep>& rows);

// Returns the file of a stack with the fitted constants, which extends another.
std::string stack_text(const std::string& name, const std::string& extends, const StackFit& fit,
                       const std::string& source);

}  // namespace plumbline::calibrate
