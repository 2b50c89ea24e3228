// The most likely parameters where something is known of them already: least squares with a normal prior around 0.
#pragma once

#include <Eigen/Core>
#include <functional>
#include <limits>

#include "model/base/error.h"

namespace plumbline::calibrate {

// Returns ln(predicted / measured) of every row.
using LogErrors = std::function<model::Result<Eigen::VectorXd>(const Eigen::VectorXd& parameters)>;

struct PriorProblem {
  LogErrors errors;
  Eigen::MatrixXd precision;  // of the prior: the inverse of the parameters' covariance
  Eigen::VectorXd deviation;  // of each row's error
  Eigen::VectorXd weight;     // of each row; 0: left out
  double longest = 0;         // move of a parameter in a round
  // Errors of more deviations weigh as absolute values do, not as squares (Huber); infinite: none.
  double threshold = std::numeric_limits<double>::infinity();
};

struct PriorFit {
  Eigen::VectorXd values;
  Eigen::MatrixXd covariance;
};

// Returns the slopes of the errors at the parameters where they are `there`: [row, parameter].
model::Result<Eigen::MatrixXd> slopes_of(const LogErrors& errors, const Eigen::VectorXd& parameters,
                                         const Eigen::VectorXd& there);

// Returns the most likely parameters by Gauss-Newton, from `start`. The slopes are taken anew in every round, unless
// they are given: then those hold everywhere. Errors are those of the problem's.
model::Result<PriorFit> fit_with_prior(const PriorProblem& problem, const Eigen::VectorXd& start,
                                       const Eigen::MatrixXd* slopes = nullptr);

}  // namespace plumbline::calibrate
