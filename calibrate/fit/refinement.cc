#include "calibrate/fit/refinement.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "calibrate/fit/detail/constant_list.h"
#include "calibrate/fit/detail/gpu_records.h"
#include "calibrate/fit/detail/least_squares.h"
#include "calibrate/fit/profile_fit.h"
#include "model/base/distinct.h"
#include "model/base/statistics.h"
#include "model/profile/constant_rules.h"
#include "sim/predict/predictor.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using model::Result;

constexpr double unstated_residual = 0.1;  // of a family whose residual the profile does not state
constexpr double least_slope = 1e-3;       // relative change of a time by a deviation of a constant that it depends on
constexpr double least_learned = 0.1;      // by how much less uncertain a constant is that moves
constexpr double farthest = 2;             // factor by which the middle record may be off
constexpr std::size_t folds = 5;

// Constants that move together.
struct Entry {
  std::vector<std::size_t> constants;  // into the profile's parameters
  std::optional<std::size_t> fit;      // into the profile's fits, and the entry of that fit
  std::size_t in_fit = 0;
};

double origin_of(const model::Parameter& constant) {
  const auto range = model::constant_range(constant);
  return range ? range->origin : 0;
}

// Returns the deviation of the logarithm of the value above its origin, which the profile states.
double stated_deviation(const model::Parameter& constant) {
  return model::log_deviation(constant, *constant.relative_uncertainty);
}

double prior_deviation(const model::Parameter& constant) {
  return std::hypot(stated_deviation(constant), between_gpus);
}

// Returns whether times of records may move a constant. Energies are measured in watts, SMs are counted, and residuals
// are no cause.
bool moves(const model::Parameter& constant) {
  return constant.relative_uncertainty.value_or(0) > 0 && constant.value > 0 && !constant.name.starts_with("power.") &&
         !constant.name.starts_with("residual.") && !constant.name.ends_with("_sms") &&
         !constant.name.starts_with(model::measured_prefix);
}

std::vector<Entry> entries_of(const model::Profile& profile) {
  std::vector<Entry> entries;
  std::set<std::size_t> fitted;
  for (std::size_t fit = 0; fit < profile.fits().size(); ++fit)
    for (std::size_t number = 0; number < profile.fits()[fit].constants.size(); ++number) {
      Entry entry{.constants = {}, .fit = fit, .in_fit = number};
      for (const std::string& name : profile.fits()[fit].constants[number])
        if (const auto index = profile.find(name); index && moves(profile.parameters()[*index]))
          entry.constants.push_back(*index);
      fitted.insert(entry.constants.begin(), entry.constants.end());
      if (!entry.constants.empty()) entries.push_back(std::move(entry));
    }
  for (std::size_t i = 0; i < profile.parameters().size(); ++i)
    if (moves(profile.parameters()[i]) && !fitted.contains(i))
      entries.push_back({.constants = {i}, .fit = std::nullopt});
  return entries;
}

class Refining {
 public:
  Refining(const FitRecords& records, const model::Profile& base, const model::Device& device)
      : base_(base), records_(records, device), entries_(entries_of(base)) {}

  // Removes the entries on which no record depends. Errors: no record, no entry.
  Result<void> prepare() {
    const auto predicted = TRY(records_.predict(base_));
    std::map<model::ShapeKey, double> of_shape;
    for (const Predicted& one : predicted)
      if (one.shape) ++of_shape[*one.shape];
    std::map<std::optional<model::ShapeKey>, std::size_t> numbers;
    std::vector<double> weights, deviations;
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      const Predicted& one = predicted[i];
      if (one.seconds <= 0) continue;
      rows_.push_back(i);
      fold_.push_back(numbers.try_emplace(one.shape, numbers.size()).first->second % folds);
      weights.push_back(one.shape ? 1 / of_shape[*one.shape] : 1);
      deviations.push_back(residual_of(one));
    }
    if (rows_.empty())
      return model::wrong_input("MEASUREMENTS", "no record of a GEMM, attention, another kernel or a collective alone",
                                "plumbline measure -o FILE measures them");
    problem_.weight = VectorXd::Map(weights.data(), rows());
    problem_.deviation = VectorXd::Map(deviations.data(), rows());
    problem_.threshold = 1.345;  // 95 % efficiency where errors are normal
    problem_.longest = 2;
    problem_.errors = [this](const VectorXd& x) { return errors(x); };
    const VectorXd start = VectorXd::Zero(size());
    before_ = TRY(errors(start));
    TRY(check_distance());
    const MatrixXd slopes = TRY(slopes_of(problem_.errors, start, before_));
    for (Index j = size(); j-- > 0;)
      if (slopes.col(j).cwiseAbs().maxCoeff() < least_slope) entries_.erase(entries_.begin() + j);
    if (entries_.empty())
      return model::wrong_input("--refine",
                                fmt::format("'{}' states no uncertainty of what was measured", base_.name()),
                                "--extends takes its constants where no record measures them");
    problem_.precision = prior().ldlt().solve(MatrixXd::Identity(size(), size()));
    return {};
  }

  Result<Refinement> run(const std::string& source) {
    const PriorFit fit = TRY(fit_with_prior(problem_, VectorXd::Zero(size())));
    const VectorXd after = TRY(errors(fit.values));
    slopes_ = TRY(slopes_of(problem_.errors, fit.values, after));
    const VectorXd left_out = TRY(left_out_errors(fit));
    Refinement made;
    std::map<std::string, FittedFamily> families;
    for (Index i = 0; i < rows(); ++i) {
      FittedFamily& family = families[record(i).family];
      family.before.push_back(std::expm1(before_(i)));
      family.errors.push_back(std::expm1(after(i)));
      family.left_out.push_back(std::expm1(left_out(i)));
      family.records = family.errors.size();
    }
    for (auto& [name, family] : families) {
      family.name = name;
      made.families.push_back(std::move(family));
    }
    add_constants(fit, source, made);
    if (made.constants.empty())
      made.notes.push_back(
          fmt::format("the records are too few to make any constant of {} more certain", base_.name()));
    return made;
  }

 private:
  Index size() const { return static_cast<Index>(entries_.size()); }
  Index rows() const { return static_cast<Index>(rows_.size()); }
  const Entry& entry(Index j) const { return entries_[static_cast<std::size_t>(j)]; }
  const GpuRecord& record(Index i) const { return records_.all()[rows_[static_cast<std::size_t>(i)]]; }
  const model::Parameter& first_of(Index j) const { return base_.parameters()[entry(j).constants.front()]; }

  // Nothing that is uncertain of a GPU explains a factor of all times.
  model::Result<void> check_distance() const {
    const double middle = model::upper_median<double>({before_.begin(), before_.end()});
    if (std::abs(middle) <= std::log(farthest)) return {};
    return model::wrong_input(
        "MEASUREMENTS",
        fmt::format("the middle record takes {:.3g} times what '{}' predicts", std::exp(-middle), base_.name()),
        "check that times are of one execution and in the unit that their key names; --extends fits constants from "
        "nothing");
  }

  double residual_of(const Predicted& one) const {
    if (!one.shape) return unstated_residual;
    const auto index = base_.find(fmt::format("residual.{}", to_string(one.shape->family)));
    const double stated = index ? base_.parameters()[*index].value : 0;
    return stated > 0 ? stated : unstated_residual;
  }

  // Returns the covariance of the entries, each in units of its prior deviation.
  MatrixXd prior() const {
    MatrixXd covariance = MatrixXd::Identity(size(), size());
    for (Index i = 0; i < size(); ++i)
      for (Index j = 0; j < i; ++j) {
        if (!entry(i).fit || entry(i).fit != entry(j).fit) continue;
        const auto factor = model::factor_of(base_.fits()[*entry(i).fit]);
        double correlation = 0;
        for (std::size_t k = 0; k <= std::min(entry(i).in_fit, entry(j).in_fit); ++k)
          correlation += factor[entry(i).in_fit][k] * factor[entry(j).in_fit][k];
        for (const Index of : {i, j}) correlation *= stated_deviation(first_of(of)) / prior_deviation(first_of(of));
        covariance(i, j) = covariance(j, i) = correlation;
      }
    return covariance;
  }

  // Returns the constant where its entry is off by so many deviations; the former one where a profile may not have
  // that.
  static model::Parameter moved(const model::Parameter& constant, double deviations) {
    model::Parameter other = constant;
    const double origin = origin_of(constant);
    other.value = origin + (other.value - origin) * std::exp(deviations * prior_deviation(constant));
    return model::check_constant(other) ? other : constant;
  }

  Result<VectorXd> errors(const VectorXd& x) const {
    std::vector<model::Parameter> parameters = base_.parameters();
    for (Index j = 0; j < size(); ++j)
      for (const std::size_t index : entry(j).constants)
        if (x(j) != 0) parameters[index] = moved(parameters[index], x(j));
    const auto predicted = TRY(records_.predict(model::Profile(base_.name(), "", std::move(parameters))));
    VectorXd result(rows());
    for (Index i = 0; i < rows(); ++i)
      result(i) = std::log(predicted[rows_[static_cast<std::size_t>(i)]].seconds / record(i).seconds);
    return result;
  }

  // Returns the errors of each fifth of the shapes when fitted to the others.
  Result<VectorXd> left_out_errors(const PriorFit& fit) const {
    VectorXd result(rows());
    for (std::size_t fold = 0; fold < folds; ++fold) {
      PriorProblem others = problem_;
      for (Index i = 0; i < rows(); ++i)
        if (fold_[static_cast<std::size_t>(i)] == fold) others.weight(i) = 0;
      const PriorFit without = TRY(fit_with_prior(others, fit.values, &slopes_));
      const VectorXd found = TRY(errors(without.values));
      for (Index i = 0; i < rows(); ++i)
        if (fold_[static_cast<std::size_t>(i)] == fold) result(i) = found(i);
    }
    return result;
  }

  // Adds the entries that the records make more certain, and how their errors belong together.
  void add_constants(const PriorFit& fit, const std::string& source, Refinement& made) const {
    const VectorXd left = fit.covariance.diagonal().cwiseSqrt();
    const MatrixXd scale = left.cwiseInverse().asDiagonal();
    const MatrixXd correlation = scale * fit.covariance * scale;
    std::vector<Index> learned;
    for (Index j = 0; j < size(); ++j)
      if (left(j) < 1 - least_learned) learned.push_back(j);
    for (const Index j : learned) add_entry(j, fit.values(j), left(j), source, made);
    made.fits = correlated_fits(
        learned, [&](Index j) { return names_of(j); }, [&](Index i, Index j) { return correlation(i, j); });
  }

  void add_entry(Index j, double deviations, double left, const std::string& source, Refinement& made) const {
    const auto depend = (slopes_.col(j).cwiseAbs().array() >= least_slope).count();
    const std::string by = fmt::format("{} record{}", depend, depend == 1 ? "" : "s");
    for (const std::size_t index : entry(j).constants) {
      const model::Parameter& before = base_.parameters()[index];
      constexpr int digits = 5;
      model::Parameter constant = moved(before, deviations);
      constant.value = rounded(constant.value, digits);
      const auto relative = [origin = origin_of(before)](double deviation, double value) {
        return std::expm1(deviation) * (value - origin) / value;
      };
      constant.relative_uncertainty = rounded(relative(left * prior_deviation(before), constant.value), 2);
      constant.kind = model::Evidence::fitted;
      constant.source =
          fmt::format("{} {} of {}, moved by {}; {}", before.value, before.unit, base_.name(), by, source);
      constant.low = constant.high = std::nullopt;
      made.constants.push_back({.constant = std::move(constant),
                                .before = before.value,
                                .prior = relative(prior_deviation(before), before.value),
                                .moved = deviations,
                                .alike = index != entry(j).constants.front()});
    }
  }

  std::vector<std::string> names_of(Index j) const {
    std::vector<std::string> names;
    for (const std::size_t index : entry(j).constants) names.push_back(base_.parameters()[index].name);
    return names;
  }

  const model::Profile& base_;
  GpuRecords records_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> rows_;  // records that the base predicts
  std::vector<std::size_t> fold_;  // of each row
  PriorProblem problem_;
  VectorXd before_;
  MatrixXd slopes_;
};

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

Result<Refinement> refine_profile(const FitRecords& records, const model::Profile& base, const model::Device& device,
                                  const std::string& source) {
  Refining refining(records, base, device);
  TRY(refining.prepare());
  return refining.run(source);
}

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
