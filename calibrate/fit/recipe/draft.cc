#include "calibrate/fit/recipe/detail/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "model/base/units.h"
#include "model/cost/forms/kernel_forms.h"

namespace plumbline::calibrate {
namespace {

double product(const Draft::Errors& a, const Draft::Errors& b) {
  double sum = 0;
  for (const auto& [number, weight] : a)
    if (const auto found = b.find(number); found != b.end()) sum += weight * found->second;
  return sum;
}

// Constants with one error.
struct Fact {
  Draft::Errors errors;
  std::vector<std::string> constants;
};

}  // namespace

model::Result<Draft> Draft::begin(const Recipe& recipe, const RecipeInputs& inputs) {
  Draft draft;
  draft.recipe_ = &recipe;
  draft.inputs_ = &inputs;
  draft.base_ = TRY(inputs.profile(recipe.extends));
  draft.device_ = TRY(topologies::load_device(inputs.devices, recipe.devices.front(), draft.figures_)).device;
  if (recipe.stated.empty()) return draft;
  const auto stated =
      TRY(model::load_profile((std::filesystem::path(inputs.stated) / (recipe.stated + ".toml")).string()));
  for (const model::Parameter& parameter : stated.parameters()) draft.set(parameter);
  return draft;
}

void Draft::set(model::Parameter parameter) {
  const std::string name = parameter.name;
  own_.insert_or_assign(name, std::move(parameter));
  order_[name] = ++settings_;
  errors_.insert_or_assign(name, Errors{{fmt::format("{}: {}", settings_, name), 1.0}});
}

void Draft::set(const std::string& name, double si, const std::string& unit, std::optional<double> uncertainty,
                model::Evidence kind, const std::string& source) {
  constexpr int digits = 4, uncertainty_digits = 2;
  if (step_ != nullptr && step_->uncertainty) uncertainty = std::max(*step_->uncertainty, uncertainty.value_or(0));
  model::Parameter parameter;
  parameter.name = name;
  parameter.value = rounded(si / model::si_unit(unit)->factor, digits);
  parameter.unit = unit;
  parameter.kind = kind;
  parameter.source = source;
  if (step_ != nullptr && !step_->because.empty()) parameter.source += "; " + step_->because;
  if (uncertainty && std::isfinite(*uncertainty))
    parameter.relative_uncertainty = rounded(*uncertainty, uncertainty_digits);
  set(std::move(parameter));
}

void Draft::set(const std::vector<Fitted>& constants, const std::string& how, model::Evidence kind) {
  for (const auto& [name, value, unit, deviation] : constants) set(name, value, unit, deviation, kind, how);
}

void Draft::correlate(const std::vector<Fitted>& constants, const std::vector<std::vector<double>>& correlation) {
  model::ConstantFit fit{{}, correlation};
  for (const Fitted& constant : constants) fit.constants.push_back({constant.name});
  const std::vector<std::vector<double>> factor = model::factor_of(fit);
  for (std::size_t i = 0; i < constants.size(); ++i) {
    Errors errors;
    for (std::size_t j = 0; j <= i; ++j) errors[fmt::format("{} of {}", constants[j].name, settings_)] = factor[i][j];
    share(constants[i].name, errors, constants[i].deviation, constants[i].name);
  }
}

void Draft::share(const std::string& name, const Errors& other, std::optional<double> uncertainty,
                  const std::string& why) {
  const double own = find(name)->relative_uncertainty.value_or(0), of_other = uncertainty.value_or(0);
  const double weight = own > 0 ? std::min(1.0, rounded(of_other, 2) / own) : 1;
  Errors errors;
  std::string more = why;
  for (const auto& [number, part] : other) {
    errors[number] = weight * part;
    more += ", " + number;
  }
  if (weight < 1) errors[more] = std::sqrt(1 - weight * weight);
  errors_.insert_or_assign(name, std::move(errors));
}

const model::Parameter* Draft::find(const std::string& name) const {
  if (const auto found = own_.find(name); found != own_.end()) return &found->second;
  const auto figure = std::ranges::find(figures_, name, &model::Parameter::name);
  if (figure != figures_.end()) return &*figure;
  const auto index = base_.find(name);
  return index ? &base_.parameters()[*index] : nullptr;
}

std::optional<double> Draft::si(const std::string& name) const {
  if (name == "derived.attention_pair") return attention_pair([this](const std::string& of) { return si(of); });
  const model::Parameter* parameter = find(name);
  return parameter == nullptr ? std::nullopt : std::optional(si_value(*parameter));
}

model::Failure Draft::wrong(const std::string& key, const std::string& message, const std::string& hint) const {
  if (step_ == nullptr) return model::wrong_input_at(recipe_->path, 0, key, message, hint);
  return model::wrong_input_at(step_->path, step_->line, key, message, hint);
}

FitMachine Draft::machine() const {
  return {device_, si("network.nvlink_line_rate").value_or(0), si("network.nic_line_rate").value_or(0),
          si("gemm.small_m_tile").value_or(model::SmallGemmConstants{}.tile)};
}

const std::string& Draft::tables() const {
  return step_ == nullptr || step_->tables.empty() ? recipe_->tables : step_->tables;
}

std::string Draft::table(const std::string& name) const {
  return (std::filesystem::path(inputs_->components) / tables() / (name + ".csv")).string();
}

std::string Draft::cited(const std::string& name) const {
  return fmt::format("calibrate/published/components/{}/{}.csv", tables(), name);
}

model::Result<const Measurements*> Draft::measured() {
  if (!measured_) measured_ = TRY(inputs_->measurements(recipe_->measured));
  return &*measured_;
}

std::vector<model::Parameter> Draft::constants() const {
  std::vector<model::Parameter> all;
  for (const auto& [name, parameter] : own_) all.push_back(parameter);
  return all;
}

std::vector<model::ConstantFit> Draft::fits() const {
  std::map<std::size_t, std::string> names;  // a copy stands after what it is a copy of
  for (const auto& [name, order] : order_) names[order] = name;
  std::vector<Fact> facts;
  for (const auto& [order, name] : names) {
    if (own_.at(name).relative_uncertainty.value_or(0) == 0) continue;
    const auto same = std::ranges::find(facts, errors_of(name), &Fact::errors);
    if (same == facts.end())
      facts.push_back({errors_of(name), {name}});
    else
      same->constants.push_back(name);
  }
  return correlated_fits(
      std::move(facts), [](const Fact& fact) { return fact.constants; },
      [](const Fact& a, const Fact& b) { return product(a.errors, b.errors); });
}

std::optional<model::GemmConstants> gemm_constants(const Draft& draft, const std::string& kind) {
  model::GemmConstants c;
  const auto take = [&](const std::string& name, double& value) {
    const auto found = draft.si(name);
    value = found.value_or(value);
    return found.has_value();
  };
  const auto own = [&](const char* what, double& value) { return take(fmt::format("gemm.{}.{}", kind, what), value); };
  if (!own("k_time", c.k_time) || !own("tile_m", c.tile_m) || !own("tile_n", c.tile_n)) return std::nullopt;
  take("gemm.k_block", c.k_block);
  take("gemm.ramp", c.ramp);
  own("ramp", c.ramp);
  own("wave_overhead", c.wave_overhead);
  own("wave_share", c.wave_share);
  own("memory_bandwidth", c.memory_bandwidth);
  own("droop", c.droop);
  own("droop_time", c.droop_time);
  return c;
}

}  // namespace plumbline::calibrate
