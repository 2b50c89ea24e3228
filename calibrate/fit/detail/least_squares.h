// Fits the constants of a form to measured times: least squares of the logarithms, so that a microsecond and a second
// weigh alike, with a loss that keeps disturbed samples from distorting the fit (after P. J. Huber, Robust Estimation
// of a Location Parameter, 1964).
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "model/base/error.h"

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

// Fits the logarithms of the constants by Levenberg-Marquardt. The loss of a residual r = ln(predicted / measured) is
// w^2 (sqrt(1 + (r / w)^2) - 1): quadratic near 0 and linear beyond the width w. A weak prior around the start keeps a
// constant finite that no row depends on. There is one start, from datasheets; robust_fit() is for few records without
// such a start.

struct LogFitOptions {
  double width = 0.05;  // of a residual, beyond which it counts linearly
  int rounds = 400;     // at most; the fit ends earlier where the loss no longer falls
  // Of the prior of each constant, the deviation in ln; empty: 20 for all, which no table notices.
  Eigen::VectorXd prior = {};
};

struct LogFit {
  Eigen::VectorXd values;       // each above 0
  Eigen::VectorXd uncertainty;  // relative standard deviation of each; large where no row depends on it
  Eigen::VectorXd prior_share;  // of what is known of each: 1 where no row depends on it
  Eigen::MatrixXd correlation;  // of the errors of their logarithms
  double loss = 0;
};

// A fitted constant as a step writes it: its name, value in SI, unit in a profile and relative standard deviation.
struct Fitted {
  std::string name;
  double value;
  const char* unit;
  double deviation;
};

// Requires at least one row; `start` is above 0.
LogFit log_fit(const Form& form, const Eigen::VectorXd& seconds, const Eigen::VectorXd& start,
               const LogFitOptions& options = {});

// Returns the best of several fits: from `start` and from each parameter ten times smaller and larger. Requires at
// least as many observations as parameters.
RobustFit robust_fit(const Form& form, const Eigen::VectorXd& seconds, const Eigen::VectorXd& start);

// Returns the relative error of each observation when predicted from a fit to all others. Of more observations than
// there are groups, each group is left out at once, so that time grows with the observations and not with their square.
inline constexpr Eigen::Index left_out_groups = 256;
Eigen::VectorXd left_out_errors(const Form& form, const Eigen::VectorXd& seconds, const RobustFit& fit);

// Returns the correlations of some of the constants, in this order: row i has those of constant i + 1 with the ones
// before it. A negative sign stands for the inverse of a constant.
std::vector<std::vector<double>> correlation_of(const LogFit& fit, const std::vector<Eigen::Index>& constants,
                                                const std::vector<double>& signs = {});

// Returns x * limit smoothly kept below the limit: limit * x / (1 + x^4)^(1/4), for a fitted x above 0.
double below(double limit, double x);
// Returns the relative change of below() over that of x: 1 far below the limit, 0 at it.
double share_below(double x);

// Sets the geometric mean of the values and returns half the range of their logarithms. Requires values.
double half_range(const std::vector<double>& values, double& mean);

// The most likely parameters where something is known of them already: least squares with a normal prior around 0.

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
