#include "calibrate/fit/detail/least_squares.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "model/base/statistics.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

std::vector<bool> silent_ones(const Form& form, const VectorXd& values) {
  constexpr double almost_none = 1e-12, change = 1e-3;
  const VectorXd with = form(values);
  std::vector<bool> silent;
  for (Index i = 0; i < values.size(); ++i) {
    VectorXd without = values;
    without[i] *= almost_none;
    silent.push_back(((form(without).array() / with.array() - 1).abs() < change).all());
  }
  return silent;
}

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

  const VectorXd& prior() const { return prior_; }

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

// Of a few records the prior must not be noticed, however far the start is off.
LogFitOptions few_records(Index parameters) {
  constexpr double wide = 1e4;
  return {.prior = VectorXd::Constant(parameters, wide)};
}

}  // namespace

double rounded(double value, int digits) { return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr); }

VectorXd starting_point(const Eigen::MatrixXd& features, const VectorXd& seconds) {
  VectorXd start(features.cols());
  for (Index j = 0; j < features.cols(); ++j) {
    std::vector<double> candidates;
    for (Index i = 0; i < features.rows(); ++i)
      if (features(i, j) > 0) candidates.push_back(seconds[i] / features(i, j) / static_cast<double>(features.cols()));
    start[j] = model::upper_median(std::move(candidates));
  }
  return start;
}

RobustFit robust_fit(const Form& form, const VectorXd& seconds, const VectorXd& start) {
  const auto fit_from = [&](const VectorXd& from) { return log_fit(form, seconds, from, few_records(start.size())); };
  LogFit best = fit_from(start);
  for (Index i = 0; i < start.size(); ++i) {
    for (const double factor : {0.1, 10.0}) {
      VectorXd moved = start;
      moved[i] *= factor;
      LogFit other = fit_from(moved);
      if (other.loss < best.loss) best = std::move(other);
    }
  }
  constexpr double undetermined = 1e-4;  // where residuals of 3 % leave a factor of e^3
  RobustFit fit;
  fit.values = std::move(best.values);
  fit.uncertainty = (best.prior_share.array() > undetermined)
                        .select(std::numeric_limits<double>::infinity(), best.uncertainty.array());
  fit.errors = form(fit.values).array() / seconds.array() - 1;
  fit.silent = silent_ones(form, fit.values);
  return fit;
}

VectorXd left_out_errors(const Form& form, const VectorXd& seconds, const RobustFit& fit) {
  VectorXd errors(seconds.size());
  const Index groups = std::min<Index>(seconds.size(), left_out_groups);
  for (Index group = 0; group < groups; ++group) {
    std::vector<Index> others;
    for (Index i = 0; i < seconds.size(); ++i)
      if (i % groups != group) others.push_back(i);
    const Form form_of_others = [&](const VectorXd& x) -> VectorXd { return form(x)(others); };
    const LogFit without = log_fit(form_of_others, seconds(others), fit.values, few_records(fit.values.size()));
    const VectorXd predicted = form(without.values);
    for (Index i = group; i < seconds.size(); i += groups) errors[i] = predicted[i] / seconds[i] - 1;
  }
  return errors;
}

LogFit log_fit(const Form& form, const VectorXd& seconds, const VectorXd& start, const LogFitOptions& options) {
  const VectorXd begin = start.array().log();
  const Problem problem(form, seconds, begin, options);
  FitState state{begin, problem.residuals(begin), 0};
  state.loss = problem.loss(state.x, state.residuals);
  constexpr double settled = 1e-13;
  double damping = 1e-2;
  for (int round = 0; round < options.rounds; ++round)
    if (advance(problem, state, damping) <= settled * state.loss) break;
  const VectorXd weights = problem.weights(state.residuals);
  const MatrixXd normal = problem.normal_matrix(problem.jacobian(state.x, state.residuals), weights);
  const MatrixXd inverse = normal.ldlt().solve(MatrixXd::Identity(state.x.size(), state.x.size()));
  const auto spare = static_cast<double>(std::max<Index>(1, state.residuals.size() - state.x.size()));
  const double variance = weights.cwiseProduct(state.residuals.cwiseAbs2()).sum() / spare;
  const MatrixXd covariance = inverse * variance;  // of the logarithms
  const VectorXd deviations = covariance.diagonal().cwiseMax(0.0).cwiseSqrt();
  const VectorXd scale = deviations.unaryExpr([](double d) { return d > 0 ? 1 / d : 0; });
  return {state.x.array().exp(), deviations, inverse.diagonal().cwiseProduct(problem.prior()),
          scale.asDiagonal() * covariance * scale.asDiagonal(), state.loss};
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
