#include "calibrate/fit/detail/prior_fit.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

namespace plumbline::calibrate {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using model::Result;

Result<MatrixXd> slopes_of(const LogErrors& errors, const VectorXd& parameters, const VectorXd& there) {
  constexpr double step = 0.02;
  MatrixXd slopes(there.size(), parameters.size());
  for (Index j = 0; j < parameters.size(); ++j) {
    VectorXd moved = parameters;
    moved(j) += step;
    const VectorXd errors_moved = TRY(errors(moved));
    slopes.col(j) = (errors_moved - there) / step;
  }
  return slopes;
}

Result<PriorFit> fit_with_prior(const PriorProblem& problem, const VectorXd& start, const MatrixXd* slopes) {
  constexpr int rounds = 12;
  constexpr double settled = 1e-3;
  VectorXd x = start;
  MatrixXd covariance, own;
  for (int round = 0; round < rounds; ++round) {
    const VectorXd there = TRY(problem.errors(x));
    if (slopes == nullptr) own = TRY(slopes_of(problem.errors, x, there));
    const MatrixXd& all = slopes == nullptr ? own : *slopes;
    VectorXd weights = problem.weight.array() / problem.deviation.array().square();
    for (Index i = 0; i < there.size(); ++i)
      weights(i) *= std::min(1.0, problem.threshold * problem.deviation(i) / std::abs(there(i)));
    const MatrixXd normal = all.transpose() * weights.asDiagonal() * all + problem.precision;
    const VectorXd gradient = all.transpose() * weights.asDiagonal() * there + problem.precision * x;
    covariance = normal.ldlt().solve(MatrixXd::Identity(x.size(), x.size()));
    const VectorXd move = (-covariance * gradient).cwiseMin(problem.longest).cwiseMax(-problem.longest);
    x += move;
    if (move.cwiseAbs().maxCoeff() < settled) break;
  }
  return PriorFit{x, covariance};
}

}  // namespace plumbline::calibrate
