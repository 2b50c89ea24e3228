#include "calibrate/fit/detail/constant_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "model/base/units.h"

namespace plumbline::calibrate {
namespace {

std::optional<double> usable(double uncertainty) {
  constexpr int digits = 2;
  return std::isfinite(uncertainty) ? std::optional(rounded(uncertainty, digits)) : std::nullopt;
}

}  // namespace

double si_value(const model::Parameter& parameter) { return parameter.value * model::si_unit(parameter.unit)->factor; }

const model::Parameter* ConstantList::find(const std::string& name) const {
  const auto added = std::ranges::find(parameters_, name, &model::Parameter::name);
  if (added != parameters_.end()) return &*added;
  const auto index = base_.find(name);
  return index ? &base_.parameters()[*index] : nullptr;
}

void ConstantList::add(const std::string& name, double si, std::optional<double> uncertainty, model::Evidence kind,
                       const std::string& how, const std::string& like) {
  const model::Parameter* same = find(name);
  if (same == nullptr) same = find(like);
  assert(same != nullptr && "the base profile has every constant that is fitted");
  constexpr int digits = 5;
  model::Parameter parameter;
  parameter.name = name;
  parameter.value = rounded(si / model::si_unit(same->unit)->factor, digits);
  parameter.unit = same->unit;
  parameter.kind = kind;
  parameter.source = fmt::format("{}; {}", how, source_);
  if (uncertainty) parameter.relative_uncertainty = usable(*uncertainty);
  parameters_.push_back(std::move(parameter));
}

void ConstantList::add_fitted(const std::string& name, const RobustFit& fit, Eigen::Index index, const std::string& how,
                              const std::string& like) {
  if (fit.silent[static_cast<std::size_t>(index)])
    return add(name, 0, std::nullopt, model::Evidence::fitted, how + ", none distinguishes it from 0", like);
  add(name, fit.values[index], fit.uncertainty[index], model::Evidence::fitted, how, like);
}

void ConstantList::add_rate(const std::string& name, const RobustFit& fit, Eigen::Index index, const std::string& how,
                            const std::string& like) {
  if (fit.silent[static_cast<std::size_t>(index)]) return;
  add(name, 1 / fit.values[index], fit.uncertainty[index], model::Evidence::fitted, how, like);
}

double ConstantList::value(const std::string& name) const {
  const model::Parameter* parameter = find(name);
  assert(parameter != nullptr && "the base profile has every constant that is fitted");
  return si_value(*parameter);
}

bool ConstantList::has(const std::string& name) const {
  return std::ranges::find(parameters_, name, &model::Parameter::name) != parameters_.end();
}

std::optional<RobustFit> fit_family(const std::string& name, const Form& form, const Eigen::VectorXd& seconds,
                                    const Eigen::VectorXd& start, ProfileFit& result) {
  if (seconds.size() < start.size()) {
    result.notes.push_back(fmt::format("{}: {} record{}, too few for {} constants", name, seconds.size(),
                                       seconds.size() == 1 ? "" : "s", start.size()));
    return std::nullopt;
  }
  RobustFit fit = robust_fit(form, seconds, start);
  FittedFamily family{.name = name, .records = static_cast<std::size_t>(seconds.size())};
  family.errors.assign(fit.errors.begin(), fit.errors.end());
  if (seconds.size() > start.size()) {
    const Eigen::VectorXd left_out = left_out_errors(form, seconds, fit);
    family.left_out.assign(left_out.begin(), left_out.end());
  }
  result.families.push_back(std::move(family));
  return fit;
}

}  // namespace plumbline::calibrate
