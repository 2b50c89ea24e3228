#include "calibrate/fit/detail/robust_fit.h"

#include <fmt/format.h>

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

}  // namespace plumbline::calibrate
