#include "calibrate/fit/stack_fit.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "calibrate/fit/detail/constant_list.h"
#include "calibrate/fit/detail/prior_fit.h"
#include "calibrate/fit/profile_fit.h"
#include "model/base/distinct.h"
#include "model/profile/constant_rules.h"
#include "sim/predict/predictor_pool.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using model::Result;

constexpr std::size_t fewest_steps = 3;
constexpr double row_noise =
    0.04;  // of ln(predicted / measured): sim::schedule_scatter, what repetitions of a plan leave
constexpr double usual_uncertainty = 0.3;  // of a constant that states none
constexpr double least_effect = 1e-3;      // of a family on some step, relative, for a factor of e

struct StackFamily {
  std::string_view name;
  std::vector<std::string_view> patterns;
};

const std::vector<StackFamily>& stack_families() {
  static const std::vector<StackFamily> all = {
      {"host time",
       {"host.launch", "host.operator.*", "host.layer.*", "host.view", "host.synchronization", "host.graph_launch",
        "host.step"}},
      {"passes of unfused kernels", {"kernel.*.passes"}},
      {"copies of shards", {"sharding.*passes"}},
      {"slowdown of what overlaps", {"overlap.*_slowdown"}},
      {"sustained clock", {"kernel.sustained_clock"}},
  };
  return all;
}

// Returns the constant's value under a factor. What counts from 1, as a slowdown does, is scaled above 1.
double scaled(const model::Parameter& constant, double factor) {
  if (constant.name.ends_with("_slowdown") || constant.name.ends_with("passes"))
    return constant.value > 1 ? 1 + (constant.value - 1) * factor : constant.value;
  if (constant.name == "kernel.sustained_clock") return std::min(1.0, constant.value * factor);
  return constant.value * factor;
}

class StackProblem {
 public:
  explicit StackProblem(const std::vector<MeasuredStep>& rows) : rows_(rows), included_(rows.size(), true) {
    for (const StackFamily& family : stack_families()) {
      std::vector<double> uncertainties;
      for (const model::Parameter* constant : constants_of(family, rows.front().inputs.profile))
        uncertainties.push_back(constant->relative_uncertainty.value_or(usual_uncertainty));
      if (uncertainties.empty()) continue;
      used_.push_back(&family);
      priors_.push_back(*std::ranges::max_element(uncertainties));
    }
  }

  Index factors() const { return static_cast<Index>(used_.size()); }
  const StackFamily& family(Index j) const { return *used_[static_cast<std::size_t>(j)]; }
  double prior(Index j) const { return priors_[static_cast<std::size_t>(j)]; }
  void include(std::size_t row, bool wanted) { included_[row] = wanted; }
  void drop(Index j) {
    used_.erase(used_.begin() + j);
    priors_.erase(priors_.begin() + j);
  }

  static std::vector<const model::Parameter*> constants_of(const StackFamily& family, const model::Profile& profile) {
    std::vector<const model::Parameter*> found;
    for (const model::Parameter& constant : profile.parameters())
      if (std::ranges::any_of(family.patterns, [&](auto pattern) { return model::name_fits(constant.name, pattern); }))
        found.push_back(&constant);
    return found;
  }

  // Returns ln(predicted / measured) of every row.
  Result<VectorXd> residuals(const VectorXd& factors) {
    VectorXd result(static_cast<Index>(rows_.size()));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      sim::Inputs inputs = rows_[i].inputs;
      std::vector<model::ConstantChange> changes;
      for (Index j = 0; j < factors.size(); ++j)
        for (const model::Parameter* constant : constants_of(family(j), inputs.profile))
          changes.push_back({constant->name, scaled(*constant, std::exp(factors(j)))});
      inputs.profile = TRY(inputs.profile.with_changes(changes));
      const auto estimate =
          TRY(predictors_.with(inputs, [&](sim::Predictor& predictor) { return predictor.closed_form(inputs.plan); }));
      result(static_cast<Index>(i)) = std::log(estimate.step.time_s / rows_[i].seconds);
    }
    return result;
  }

  // Returns the most likely factors of the included rows.
  Result<PriorFit> solve() {
    PriorProblem problem{.errors = [this](const VectorXd& x) { return residuals(x); }, .longest = 0.5};
    const VectorXd priors = VectorXd::Map(priors_.data(), factors());
    problem.precision = priors.array().square().inverse().matrix().asDiagonal();
    const auto rows = static_cast<Index>(rows_.size());
    problem.deviation = VectorXd::Constant(rows, row_noise);
    problem.weight.resize(rows);
    for (Index i = 0; i < rows; ++i) problem.weight(i) = included_[static_cast<std::size_t>(i)] ? 1 : 0;
    return fit_with_prior(problem, VectorXd::Zero(factors()));
  }

 private:
  const std::vector<MeasuredStep>& rows_;
  std::vector<bool> included_;
  std::vector<const StackFamily*> used_;
  std::vector<double> priors_;
  sim::PredictorPool predictors_;
};

// Removes the families on which no step depends.
Result<void> drop_silent(StackProblem& problem) {
  const VectorXd start = VectorXd::Zero(problem.factors());
  const VectorXd there = TRY(problem.residuals(start));
  const MatrixXd slopes = TRY(slopes_of([&](const VectorXd& x) { return problem.residuals(x); }, start, there));
  for (Index j = problem.factors(); j-- > 0;)
    if (slopes.col(j).cwiseAbs().maxCoeff() < least_effect) problem.drop(j);
  return {};
}

double relative(double logarithm) { return std::exp(logarithm) - 1; }

std::string ids_of(const std::vector<MeasuredStep>& rows) {
  std::vector<std::string> ids;
  for (const MeasuredStep& row : rows) ids.push_back(row.id);
  return fmt::format("{}", fmt::join(ids, ", "));
}

}  // namespace

Result<StackFit> fit_stack(const std::vector<MeasuredStep>& rows) {
  if (rows.size() < fewest_steps)
    return model::wrong_input("STEPS", fmt::format("{} rows determine no stack", rows.size()),
                              fmt::format("measure at least {} steps, of different layouts or models", fewest_steps));
  for (const MeasuredStep& row : rows)
    if (row.inputs.profile.name() != rows.front().inputs.profile.name() ||
        row.inputs.profile.stack() != rows.front().inputs.profile.stack())
      return model::wrong_input("STEPS",
                                fmt::format("{} runs on another profile or stack than {}", row.id, rows.front().id),
                                "fit a stack to the steps of one kind of GPU at a time");
  StackProblem problem(rows);
  TRY(drop_silent(problem));
  if (problem.factors() == 0)
    return model::wrong_input("--extends", "its stack has no constant that these steps depend on",
                              "extend a shipped one: plumbline show stack lists them");
  const VectorXd before = TRY(problem.residuals(VectorXd::Zero(problem.factors())));
  const auto solution = TRY(problem.solve());
  const VectorXd after = TRY(problem.residuals(solution.values));
  StackFit fit;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto at = static_cast<Index>(i);
    problem.include(i, false);
    const auto others = TRY(problem.solve());
    const VectorXd left_out = TRY(problem.residuals(others.values));
    problem.include(i, true);
    fit.rows.push_back({rows[i].id, relative(before(at)), relative(after(at)), relative(left_out(at))});
  }
  for (Index j = 0; j < problem.factors(); ++j) {
    StackFactor factor{std::string(problem.family(j).name),
                       std::exp(solution.values(j)),
                       std::sqrt(solution.covariance(j, j)),
                       problem.prior(j),
                       {}};
    for (const model::Parameter* base : StackProblem::constants_of(problem.family(j), rows.front().inputs.profile)) {
      model::Parameter& constant = factor.constants.emplace_back(*base);
      constant.value = rounded(scaled(*base, factor.factor), 4);
      constant.kind = model::Evidence::fitted;
      constant.source = fmt::format("fitted to {} steps ({}), from {} {}: {}", rows.size(), ids_of(rows), base->value,
                                    base->unit, base->source);
      constant.relative_uncertainty = rounded(factor.uncertainty, 2);
      constant.low = constant.high = std::nullopt;
      constant.rows = model::distinct(rows, &MeasuredStep::set);
    }
    fit.factors.push_back(std::move(factor));
  }
  return fit;
}

std::string stack_text(const std::string& name, const std::string& extends, const StackFit& fit,
                       const std::string& source) {
  std::vector<model::Parameter> constants;
  for (const StackFactor& factor : fit.factors)
    constants.insert(constants.end(), factor.constants.begin(), factor.constants.end());
  return profile_text({name, fmt::format("fitted to measured steps: {}", source), extends}, std::move(constants));
}

}  // namespace plumbline::calibrate
