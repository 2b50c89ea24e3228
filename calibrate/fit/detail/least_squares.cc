#include "calibrate/fit/detail/least_squares.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <unsupported/Eigen/LevenbergMarquardt>
#include <unsupported/Eigen/NumericalDiff>
#include <utility>

#include "model/base/statistics.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

// Weighted residuals of the logarithms, in the interface of Eigen's solver.
struct FormResiduals : Eigen::DenseFunctor<double> {
  FormResiduals(const Form& the_form, const VectorXd& seconds, const VectorXd& weights, Index parameters)
      : DenseFunctor(static_cast<int>(parameters), static_cast<int>(seconds.size())),
        form(&the_form),
        measured(seconds.array().log()),
        root(weights.array().sqrt()) {}

  int operator()(const VectorXd& x, VectorXd& out) const {
    out = ((*form)(x.array().exp()).array().log() - measured.array()) * root.array();
    return 0;
  }

  const Form* form;
  VectorXd measured, root;
};

VectorXd log_residuals(const Form& form, const VectorXd& seconds, const VectorXd& x) {
  return form(x.array().exp()).array().log() - seconds.array().log();
}

// Returns the spread of residuals: the standard deviation of a normal distribution with their median deviation.
double spread(const VectorXd& residuals, const VectorXd& used) {
  std::vector<double> deviations;
  for (Index i = 0; i < residuals.size(); ++i)
    if (used[i] > 0) deviations.push_back(std::abs(residuals[i]));
  constexpr double to_deviation = 1.4826, floor = 1e-6;  // the floor: for observations that the form fits exactly
  return std::max(floor, to_deviation * model::upper_median(std::move(deviations)));
}

VectorXd huber_weights(const VectorXd& residuals, const VectorXd& used) {
  constexpr double tuning = 1.345;  // 95 % efficiency where errors are normal (Huber)
  const double threshold = tuning * spread(residuals, used);
  return used.array() * (threshold / residuals.array().abs().max(threshold));
}

struct Solution {
  VectorXd x, weights;
  double loss = std::numeric_limits<double>::infinity();
};

// Returns the loss that Huber's estimate minimizes: squares near 0, absolute values beyond. It is taken of the
// logarithms with one fixed threshold, so that starting points can be compared.
double huber_loss(const VectorXd& residuals, const VectorXd& used) {
  constexpr double threshold = 0.1;
  double loss = 0;
  for (Index i = 0; i < residuals.size(); ++i) {
    const double r = std::abs(residuals[i]);
    loss += used[i] * (r < threshold ? r * r / 2 : threshold * (r - threshold / 2));
  }
  return loss;
}

Solution descend(const Form& form, const VectorXd& seconds, const VectorXd& used, VectorXd x, int rounds) {
  constexpr double settled = 1e-6;
  VectorXd weights = used;
  for (int round = 0; round < rounds; ++round) {
    using Differentiated = Eigen::NumericalDiff<FormResiduals>;
    Differentiated problem(FormResiduals(form, seconds, weights, x.size()));
    Eigen::LevenbergMarquardt<Differentiated> solver(problem);
    const VectorXd before = x;
    solver.minimize(x);
    if (!x.allFinite()) return {before, weights, std::numeric_limits<double>::infinity()};
    weights = huber_weights(log_residuals(form, seconds, x), used);
    if (round > 0 && (x - before).cwiseAbs().maxCoeff() < settled) break;
  }
  return {x, weights, huber_loss(log_residuals(form, seconds, x), used)};
}

Solution solve(const Form& form, const VectorXd& seconds, const VectorXd& start) {
  constexpr int rounds = 20;
  const VectorXd used = VectorXd::Ones(seconds.size());
  Solution best = descend(form, seconds, used, start, rounds);
  for (Index i = 0; i < start.size(); ++i) {
    for (const double shift : {-std::log(10), std::log(10)}) {
      VectorXd moved = start;
      moved[i] += shift;
      Solution other = descend(form, seconds, used, moved, rounds);
      if (other.loss < best.loss) best = std::move(other);
    }
  }
  return best;
}

VectorXd uncertainties(const Form& form, const VectorXd& seconds, const Solution& solution) {
  const Index parameters = solution.x.size();
  Eigen::MatrixXd j(seconds.size(), parameters);
  const FormResiduals residuals(form, seconds, solution.weights, parameters);
  Eigen::NumericalDiff<FormResiduals, Eigen::Central>(residuals).df(solution.x, j);
  const double s = spread(log_residuals(form, seconds, solution.x), VectorXd::Ones(seconds.size()));
  const Eigen::MatrixXd normal = j.transpose() * j;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(normal);
  VectorXd variance = VectorXd::Zero(parameters);
  constexpr double nothing = 1e-12;
  for (Index k = 0; k < parameters; ++k) {
    const double value = eigen.eigenvalues()[k];
    for (Index i = 0; i < parameters; ++i) {
      const double part = eigen.eigenvectors()(i, k) * eigen.eigenvectors()(i, k);
      if (value > nothing) variance[i] += part * s * s / value;
      if (value <= nothing && part > nothing) variance[i] = std::numeric_limits<double>::infinity();
    }
  }
  return variance.array().sqrt();
}

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

using Eigen::MatrixXd;

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
  const Solution solution = solve(form, seconds, start.array().log());
  RobustFit fit;
  fit.values = solution.x.array().exp();
  fit.uncertainty = uncertainties(form, seconds, solution);
  fit.errors = form(fit.values).array() / seconds.array() - 1;
  fit.silent = silent_ones(form, fit.values);
  return fit;
}

VectorXd left_out_errors(const Form& form, const VectorXd& seconds, const RobustFit& fit) {
  constexpr int rounds = 3;  // few suffice: the fit to all observations is the start
  VectorXd errors(seconds.size());
  const Index groups = std::min<Index>(seconds.size(), left_out_groups);
  for (Index group = 0; group < groups; ++group) {
    VectorXd used = VectorXd::Ones(seconds.size());
    for (Index i = group; i < seconds.size(); i += groups) used[i] = 0;
    const Solution without = descend(form, seconds, used, fit.values.array().log(), rounds);
    const VectorXd predicted = form(without.x.array().exp());
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
