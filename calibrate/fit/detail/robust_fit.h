// Constants of a form fitted to measured times: least squares of the logarithms, so that a microsecond and a second
// weigh alike, with Huber's weights (P. J. Huber, Robust Estimation of a Location Parameter, 1964), so that a
// disturbance of the machine does not pull.
#pragma once

#include <Eigen/Core>
#include <functional>
#include <vector>

namespace plumbline::calibrate {

// Predicted seconds of every observation, for parameters above 0.
using Form = std::function<Eigen::VectorXd(const Eigen::VectorXd& parameters)>;

struct RobustFit {
  Eigen::VectorXd values;       // each above 0
  Eigen::VectorXd uncertainty;  // relative standard deviation of each; infinite where no observation feels it
  Eigen::VectorXd errors;       // predicted / measured - 1
  // A parameter that could as well be 0: without it no prediction changes by a thousandth.
  std::vector<bool> silent;
};

// Of an even number the upper one of the middle two. Requires values.
double median(std::vector<double> values);

// Parameters at which each one alone gives the median observation its share: features(i, j) times parameter j is a
// part of observation i. Requires a feature above 0 in every column.
Eigen::VectorXd starting_point(const Eigen::MatrixXd& features, const Eigen::VectorXd& seconds);

// Levenberg-Marquardt in the logarithms of the parameters, reweighted until the weights stand, from `start` and from
// each parameter ten times smaller and larger; the best of them. Requires at least as many observations as parameters.
RobustFit robust_fit(const Form& form, const Eigen::VectorXd& seconds, const Eigen::VectorXd& start);

// Errors of predicting each observation from a fit to all others.
Eigen::VectorXd left_out_errors(const Form& form, const Eigen::VectorXd& seconds, const RobustFit& fit);

}  // namespace plumbline::calibrate
