// A measured profile moved by a user's own records of one GPU: each constant as far as its uncertainty allows.
#pragma once

#include <string>
#include <vector>

#include "calibrate/fit/profile_fit.h"
#include "model/base/error.h"
#include "model/base/provenance.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"
#include "sim/predict/inputs.h"

namespace plumbline::calibrate {

struct RefinedConstant {
  model::Parameter constant;  // with its new value and uncertainty, of kind fitted
  double before = 0;          // in the constant's unit
  double prior = 0;           // relative standard deviation before: of the profile, and by which GPUs differ
  double moved = 0;           // in these standard deviations, with the sign of the change
  bool alike = false;         // it moves with the constant before it, which states the same fact
};

struct Refinement {
  std::vector<RefinedConstant> constants;
  std::vector<model::ConstantFit> fits;  // of these constants: which of their errors belong together
  std::vector<FittedFamily> families;    // errors with the profile as it was, refined, and of shapes left out
  std::vector<std::string> notes;
};

// Moves the constants of `base` to where they are most likely after the records, which the cost functions of all
// predictions predict (calibrate/fit/detail/gpu_records.h). Before them ln(constant) is normal around its value with
// the deviation that the profile states, correlated as its fits state, and by 5 % more, as GPUs of one kind differ.
// ln(measured / predicted) of a shape is normal around 0 with the residual of its family (0.1 where the profile states
// none), all records of a shape counting as one; errors of more than 1.345 deviations weigh as their absolute values.
// Constants without an uncertainty, energies, numbers of SMs, and those that the records do not make more certain by a
// tenth stay as they are. `source` is the origin of the records. Input errors: no record that can be predicted, a
// middle record that is off by more than a factor of 2, a base none of whose constants the records move, a constant
// that the base lacks.
model::Result<Refinement> refine_profile(const FitRecords& records, const model::Profile& base,
                                         const model::Device& device, const std::string& source);

// The few constants of a stack that a user's own measured steps determine.

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
