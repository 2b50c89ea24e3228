// Fits a form with many constants to a large table: the logarithms of the constants by Levenberg-Marquardt. The loss of
// a residual r = ln(predicted / measured) is w^2 (sqrt(1 + (r / w)^2) - 1): quadratic near 0 and linear beyond the
// width w. A weak prior around the start keeps a constant finite that no row depends on. There is one start, from
// datasheets; robust_fit.h is for few records without such a start.
#pragma once

#include <Eigen/Core>
#include <string>
#include <vector>

#include "calibrate/fit/detail/robust_fit.h"

namespace plumbline::calibrate {

struct LogFitOptions {
  double width = 0.05;  // of a residual, beyond which it counts linearly
  int rounds = 400;     // at most; the fit ends earlier where the loss no longer falls
  // Of the prior of each constant, the deviation in ln; empty: 20 for all, which no table notices.
  Eigen::VectorXd prior = {};
};

struct LogFit {
  Eigen::VectorXd values;       // each above 0
  Eigen::VectorXd uncertainty;  // relative standard deviation of each; large where no row depends on it
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

}  // namespace plumbline::calibrate
