// Fits the constants of a form to measured times: least squares of the logarithms, so that a microsecond and a second
// weigh alike. Huber's weights (P. J. Huber, Robust Estimation of a Location Parameter, 1964) keep disturbed samples
// from distorting the fit.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <functional>
#include <vector>

namespace plumbline::calibrate {

// Returns the predicted seconds of every observation, for parameters above 0.
using Form = std::function<Eigen::VectorXd(const Eigen::VectorXd& parameters)>;

// Returns the value of every row.
template <class Row, class Value>
Eigen::VectorXd vector_of(const std::vector<Row>& rows, const Value& value) {
  Eigen::VectorXd values(static_cast<Eigen::Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) values[static_cast<Eigen::Index>(i)] = std::invoke(value, rows[i]);
  return values;
}

template <class Row>
Eigen::VectorXd seconds_of(const std::vector<Row>& rows) {
  return vector_of(rows, &Row::seconds);
}

struct RobustFit {
  Eigen::VectorXd values;       // each above 0
  Eigen::VectorXd uncertainty;  // relative standard deviation of each; infinite where no observation depends on it
  Eigen::VectorXd errors;       // predicted / measured - 1
  // Whether a parameter could be 0: without it every prediction changes by less than a thousandth.
  std::vector<bool> silent;
};

// Returns the value with as many significant digits as a fit has.
double rounded(double value, int digits);

// Returns start parameters with which all columns have equal shares of the median observation. Column j contributes
// features(i, j) times parameter j to observation i. Requires a feature above 0 in every column.
Eigen::VectorXd starting_point(const Eigen::MatrixXd& features, const Eigen::VectorXd& seconds);

// Returns the best of several fits: Levenberg-Marquardt in the logarithms of the parameters, reweighted until the
// weights converge, from `start` and from each parameter ten times smaller and larger. Requires at least as many
// observations as parameters.
RobustFit robust_fit(const Form& form, const Eigen::VectorXd& seconds, const Eigen::VectorXd& start);

// Returns the relative error of each observation when predicted from a fit to all others. Of more observations than
// there are groups, each group is left out at once, so that time grows with the observations and not with their square.
inline constexpr Eigen::Index left_out_groups = 256;
Eigen::VectorXd left_out_errors(const Form& form, const Eigen::VectorXd& seconds, const RobustFit& fit);

}  // namespace plumbline::calibrate
