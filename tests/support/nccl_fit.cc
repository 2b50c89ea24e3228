#include "tests/support/nccl_fit.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <utility>

#include "model/base/units.h"

namespace plumbline::tests {
namespace {

using model::CollectiveCost;

// The problem is in logarithms of the constants, which keeps them above 0 and removes their scale.
class Problem {
 public:
  static model::Result<Problem> make(const CollectiveCurve& curve, const model::Profile& profile,
                                     const model::ClusterShape& cluster, const std::vector<std::string>& constants) {
    Problem problem(curve, profile, cluster);
    for (std::size_t i = 0; i < curve.points.size(); i += 2) problem.training_.push_back(curve.points[i]);
    if (problem.training_.size() < constants.size())
      return tl::unexpected(model::Error{model::ErrorKind::input,
                                         fmt::format("curve '{}' has {} sizes to fit {} constants to", curve.name,
                                                     problem.training_.size(), constants.size()),
                                         "", 0, "", "measure more sizes, or fit fewer constants"});
    for (const std::string& name : constants) {
      const auto found = profile.find(name);
      if (!found)
        return tl::unexpected(model::Error{
            model::ErrorKind::input, fmt::format("profile '{}' lacks the constant", profile.name()), "", 0, name, ""});
      problem.indices_.push_back(*found);
    }
    const auto valid = CollectiveCost::make(profile, cluster);
    if (!valid) return tl::unexpected(valid.error());
    return problem;
  }

  Eigen::VectorXd start() const {
    const double shortest = std::ranges::min_element(training_, {}, &CollectiveCurve::Point::seconds)->seconds;
    Eigen::VectorXd x(static_cast<Eigen::Index>(indices_.size()));
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      const model::Parameter& parameter = profile_.parameters()[indices_[i]];
      const double zero = shortest / 2 / model::si_unit(parameter.unit)->factor;
      x[static_cast<Eigen::Index>(i)] = std::log(parameter.value > 0 ? parameter.value : zero);
    }
    return x;
  }

  model::Profile profile_at(const Eigen::VectorXd& x) const {
    std::vector<model::Parameter> parameters = profile_.parameters();
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      model::Parameter& parameter = parameters[indices_[i]];
      parameter.value = std::exp(x[static_cast<Eigen::Index>(i)]);
      parameter.kind = model::Evidence::fitted;
      parameter.source = fmt::format("least squares on every second size of {}: {}", curve_.name, curve_.source);
      parameter.relative_uncertainty.reset();
    }
    return {profile_.name(), profile_.description(), std::move(parameters)};
  }

  // Returns the relative errors of the training sizes.
  Eigen::VectorXd residuals(const Eigen::VectorXd& x) const {
    const CollectiveCost cost = CollectiveCost::make(profile_at(x), cluster_).value();
    Eigen::VectorXd r(static_cast<Eigen::Index>(training_.size()));
    for (std::size_t i = 0; i < training_.size(); ++i)
      r[static_cast<Eigen::Index>(i)] =
          cost.time(curve_.collective, curve_.group, model::Bytes(training_[i].bytes)) / training_[i].seconds - 1;
    return r;
  }

  Eigen::MatrixXd jacobian(const Eigen::VectorXd& x, const Eigen::VectorXd& at) const {
    constexpr double step = 1e-5;
    Eigen::MatrixXd j(at.size(), x.size());
    for (Eigen::Index i = 0; i < x.size(); ++i) {
      Eigen::VectorXd moved = x;
      moved[i] += step;
      j.col(i) = (residuals(moved) - at) / step;
    }
    return j;
  }

  const std::vector<std::size_t>& indices() const { return indices_; }

 private:
  Problem(const CollectiveCurve& curve, const model::Profile& profile, const model::ClusterShape& cluster)
      : curve_(curve), profile_(profile), cluster_(cluster) {}

  const CollectiveCurve& curve_;
  const model::Profile& profile_;
  const model::ClusterShape& cluster_;
  std::vector<CollectiveCurve::Point> training_;
  std::vector<std::size_t> indices_;
};

struct Solution {
  Eigen::VectorXd x;
  double squares = 0;
};

// Levenberg-Marquardt. The minimum over algorithms and protocols has kinks, which the damping gets across.
Solution descend(const Problem& problem, Eigen::VectorXd x) {
  constexpr int most_steps = 80;
  constexpr double longest_step = 1, damping_floor = 1e-9, hopeless = 1e9;
  Eigen::VectorXd r = problem.residuals(x);
  double damping = 1e-2;
  for (int i = 0; i < most_steps && damping < hopeless; ++i) {
    const Eigen::MatrixXd j = problem.jacobian(x, r);
    Eigen::MatrixXd normal = j.transpose() * j;
    normal.diagonal() *= 1 + damping;
    normal.diagonal().array() += damping_floor;  // for a constant on which no training size depends
    const Eigen::VectorXd step = normal.ldlt().solve(-j.transpose() * r);
    const Eigen::VectorXd next = x + step.cwiseMax(-longest_step).cwiseMin(longest_step);
    const Eigen::VectorXd moved = problem.residuals(next);
    if (moved.squaredNorm() < r.squaredNorm()) {
      x = next;
      r = moved;
      damping = std::max(damping / 3, damping_floor);
    } else {
      damping *= 4;
    }
  }
  return {x, r.squaredNorm()};
}

// Starts at several points because of the kinks: each constant as given, a third of it, three times it.
Solution solve(const Problem& problem) {
  const Eigen::VectorXd start = problem.start();
  Solution best = descend(problem, start);
  for (Eigen::Index i = 0; i < start.size(); ++i) {
    for (const double shift : {-std::log(3), std::log(3)}) {
      Eigen::VectorXd moved = start;
      moved[i] += shift;
      Solution other = descend(problem, moved);
      if (other.squares < best.squares) best = std::move(other);
    }
  }
  return best;
}

std::vector<double> absolute_errors(const std::vector<CurveFit::Row>& rows, bool held_out) {
  std::vector<double> errors;
  for (const CurveFit::Row& row : rows)
    if (row.held_out == held_out) errors.push_back(std::abs(row.error()));
  std::ranges::sort(errors);
  return errors;
}

}  // namespace

double CurveFit::median_error(bool held_out) const {
  const std::vector<double> errors = absolute_errors(rows, held_out);
  if (errors.empty()) return 0;
  return (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
}

double CurveFit::largest_error(bool held_out) const {
  const std::vector<double> errors = absolute_errors(rows, held_out);
  return errors.empty() ? 0 : errors.back();
}

std::vector<std::string> constants_to_fit(const CollectiveCurve& curve, bool nvls) {
  if (curve.group.nodes() == 1) return {"collective.launch", "collective.nvlink_latency_scale", "network.nvlink_rate"};
  return {"collective.launch", "collective.network_latency_scale", nvls ? "network.nvlink_rate" : "network.nic_rate"};
}

model::Result<CurveFit> fit_curve(const CollectiveCurve& curve, const model::Profile& profile,
                                  const model::ClusterShape& cluster, const std::vector<std::string>& constants) {
  const auto problem = Problem::make(curve, profile, cluster, constants);
  if (!problem) return tl::unexpected(problem.error());
  CurveFit fit;
  fit.profile = problem->profile_at(solve(*problem).x);
  for (const std::size_t index : problem->indices()) fit.fitted.push_back(fit.profile.parameters()[index]);
  const CollectiveCost cost = CollectiveCost::make(fit.profile, cluster).value();
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const CollectiveCurve::Point& point = curve.points[i];
    fit.rows.push_back(
        {point.bytes, point.seconds, cost.time(curve.collective, curve.group, model::Bytes(point.bytes)), i % 2 == 1});
  }
  return fit;
}

}  // namespace plumbline::tests
