#include "calibrate/fit/detail/log_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace plumbline::calibrate {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double usual_prior = 20;

class Problem {
 public:
  Problem(const Form& form, const VectorXd& seconds, const VectorXd& start, const LogFitOptions& options)
      : form_(form),
        measured_(seconds.array().log()),
        start_(start),
        prior_(VectorXd::Constant(start.size(), 1 / (usual_prior * usual_prior))),
        width_(options.width) {
    if (options.prior.size() > 0) prior_ = options.prior.array().square().inverse();
  }

  VectorXd residuals(const VectorXd& x) const { return form_(x.array().exp()).array().log() - measured_.array(); }

  double loss(const VectorXd& x, const VectorXd& residuals) const {
    const double rows = (((residuals / width_).array().square() + 1).sqrt() - 1).sum() * width_ * width_;
    return rows + (x - start_).cwiseAbs2().dot(prior_) / 2;
  }

  VectorXd weights(const VectorXd& residuals) const {
    return ((residuals / width_).array().square() + 1).sqrt().inverse();
  }

  MatrixXd jacobian(const VectorXd& x, const VectorXd& residuals_there) const {
    constexpr double step = 1e-4;
    MatrixXd j(residuals_there.size(), x.size());
    for (Eigen::Index column = 0; column < x.size(); ++column) {
      VectorXd moved = x;
      moved[column] += step;
      j.col(column) = (residuals(moved) - residuals_there) / step;
    }
    return j;
  }

  // Returns x with no constant further from its start than a factor of e^30.
  VectorXd in_reach(const VectorXd& x) const {
    constexpr double farthest = 30;
    return start_ + (x - start_).cwiseMin(farthest).cwiseMax(-farthest);
  }

  VectorXd prior_gradient(const VectorXd& x) const { return (x - start_).cwiseProduct(prior_); }

  // Returns the matrix of the normal equations, prior included.
  MatrixXd normal_matrix(const MatrixXd& j, const VectorXd& weights) const {
    MatrixXd normal = j.transpose() * weights.asDiagonal() * j;
    normal.diagonal() += prior_;
    return normal;
  }

 private:
  const Form& form_;
  VectorXd measured_, start_, prior_;
  double width_;
};

struct FitState {
  VectorXd x, residuals;
  double loss;
};

// Takes one step that lowers the loss, damped as much as that needs; returns by how much it fell, 0 for no step.
double advance(const Problem& problem, FitState& state, double& damping) {
  const VectorXd weights = problem.weights(state.residuals);
  const MatrixXd j = problem.jacobian(state.x, state.residuals);
  const MatrixXd normal = problem.normal_matrix(j, weights);
  const VectorXd gradient = j.transpose() * weights.cwiseProduct(state.residuals) + problem.prior_gradient(state.x);
  constexpr int attempts = 10;
  constexpr double factor = 5, least = 1e-8;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    MatrixXd damped = normal;
    damped.diagonal() += damping * normal.diagonal();
    const VectorXd step = damped.ldlt().solve(-gradient).cwiseMin(1.0).cwiseMax(-1.0);
    FitState next{problem.in_reach(state.x + step), {}, 0};
    next.residuals = problem.residuals(next.x);
    next.loss = problem.loss(next.x, next.residuals);
    if (next.loss < state.loss) {
      const double fell = state.loss - next.loss;
      state = std::move(next);
      damping = std::max(damping / factor, least);
      return fell;
    }
    damping *= factor;
  }
  return 0;
}

// Returns the covariance of the logarithms.
MatrixXd covariance(const Problem& problem, const FitState& state) {
  const VectorXd weights = problem.weights(state.residuals);
  const MatrixXd normal = problem.normal_matrix(problem.jacobian(state.x, state.residuals), weights);
  const auto spare = static_cast<double>(std::max<Eigen::Index>(1, state.residuals.size() - state.x.size()));
  const double variance = weights.cwiseProduct(state.residuals.cwiseAbs2()).sum() / spare;
  return normal.ldlt().solve(MatrixXd::Identity(state.x.size(), state.x.size())) * variance;
}

}  // namespace

LogFit log_fit(const Form& form, const VectorXd& seconds, const VectorXd& start, const LogFitOptions& options) {
  const VectorXd begin = start.array().log();
  const Problem problem(form, seconds, begin, options);
  FitState state{begin, problem.residuals(begin), 0};
  state.loss = problem.loss(state.x, state.residuals);
  constexpr double settled = 1e-13;
  double damping = 1e-2;
  for (int round = 0; round < options.rounds; ++round)
    if (advance(problem, state, damping) <= settled * state.loss) break;
  const MatrixXd spread = covariance(problem, state);
  const VectorXd deviations = spread.diagonal().cwiseMax(0.0).cwiseSqrt();
  const VectorXd inverse = deviations.unaryExpr([](double d) { return d > 0 ? 1 / d : 0; });
  return {state.x.array().exp(), deviations, inverse.asDiagonal() * spread * inverse.asDiagonal(), state.loss};
}

std::vector<std::vector<double>> correlation_of(const LogFit& fit, const std::vector<Eigen::Index>& constants,
                                                const std::vector<double>& signs) {
  const auto sign = [&](std::size_t i) { return signs.empty() ? 1 : signs[i]; };
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 1; i < constants.size(); ++i) {
    rows.emplace_back();
    for (std::size_t j = 0; j < i; ++j)
      rows.back().push_back(sign(i) * sign(j) * fit.correlation(constants[i], constants[j]));
  }
  return rows;
}

double below(double limit, double x) {
  const double square = x * x;
  return limit * x / std::sqrt(std::sqrt(1 + square * square));
}

double share_below(double x) {
  const double square = x * x;
  return 1 / (1 + square * square);
}

double half_range(const std::vector<double>& values, double& mean) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  mean = std::exp(sum / static_cast<double>(values.size()));
  const auto [least, most] = std::ranges::minmax(values);
  return std::log(most / least) / 2;
}

}  // namespace plumbline::calibrate
