// A regression of relative residuals on the shares of the predicted steps: which cause a set of rows lacks. Residuals
// and shares are parts of the predicted step: of the measured one, a cause that is missing would lower all shares.
#pragma once

#include <string>
#include <vector>

#include "calibrate/residuals/step_shares.h"

namespace plumbline::calibrate {

struct ResidualRow {
  std::string set;
  double measured = 0, predicted = 0;  // s
  StepShares shares{};                 // s
};

struct ResidualCause {
  StepCause cause = StepCause::gemms;
  double share = 0;  // mean share of the predicted steps; of launches with a microsecond each
  // What the residuals ask for: the part by which the family takes longer, the part of hidden time that is exposed, or
  // the microseconds that each launch takes longer; and one standard deviation of it.
  double excess = 0, uncertainty = 0;
  double explains = 0;  // excess times share, in relative residual
};

struct ResidualRegression {
  std::string name;  // a set, "all", or "within sets": all rows less the means of their sets
  std::size_t rows = 0;
  double before = 0, after = 0;  // root mean square of measured / predicted - 1, and of what is left
  std::vector<ResidualCause> causes;
};

// Returns the regression of each set, of all rows, and of all rows within their sets, as far as they have more rows
// than causes: least squares with a prior of mean 0, whose deviation is 1 for factors and 20 us for launches, so that
// causes that rows do not separate stay near 0 with a large uncertainty.
std::vector<ResidualRegression> residual_regressions(const std::vector<ResidualRow>& rows);

}  // namespace plumbline::calibrate
