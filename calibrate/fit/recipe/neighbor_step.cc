// The step of a recipe that takes constants from the profile of another GPU.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "calibrate/fit/recipe/detail/draft.h"
#include "model/base/units.h"
#include "model/profile/constant_rules.h"

namespace plumbline::calibrate {
namespace {

struct Neighbor {
  std::string name;
  std::vector<model::Parameter> parameters;  // constants and, where its device is known, device figures
  std::vector<model::ConstantFit> fits;
  bool other_gpu = false;  // whether its constants are of another GPU than the recipe's

  const model::Parameter* find(const std::string& of) const {
    const auto found = std::ranges::find(parameters, of, &model::Parameter::name);
    return found == parameters.end() ? nullptr : &*found;
  }
  std::optional<double> si(const std::string& of) const {
    if (of == "derived.attention_pair") return attention_pair([this](const std::string& part) { return si(part); });
    const model::Parameter* parameter = find(of);
    return parameter == nullptr ? std::nullopt : std::optional(si_value(*parameter));
  }
};

// Returns 1 for a constant of which more makes kernels slower, and -1 where more makes them faster.
double slowing(const model::Parameter& constant) {
  const model::UnitDimension dimension = model::si_unit(constant.unit)->dimension;
  const bool rate =
      dimension == model::UnitDimension::bytes_per_second || dimension == model::UnitDimension::flops_per_second;
  return rate || constant.name.ends_with(".efficiency") ? -1 : 1;
}

// Returns what the error of a neighbor's constant is made of.
Draft::Errors neighbor_errors(const Draft& draft, const Neighbor& neighbor, const std::string& name) {
  if (neighbor.name == "self") return draft.errors_of(name);
  const auto called = [&](const std::string& of) { return fmt::format("{} {}", neighbor.name, of); };
  for (const model::ConstantFit& fit : neighbor.fits) {
    const auto has = [&](const std::vector<std::string>& entry) { return std::ranges::count(entry, name) > 0; };
    const auto entry = std::ranges::find_if(fit.constants, has);
    if (entry == fit.constants.end()) continue;
    Draft::Errors errors;
    const std::vector<double> row = model::factor_of(fit)[static_cast<std::size_t>(entry - fit.constants.begin())];
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i] != 0) errors[called(fit.constants[i].front())] = row[i];
    return errors;
  }
  return {{called(name), 1.0}};
}

model::Result<Neighbor> neighbor_of(const Draft& draft) {
  const std::string& name = draft.step().neighbor;
  if (name == "self") return Neighbor{name, draft.constants(), {}};
  const auto profile = TRY(draft.inputs().profile(name));
  Neighbor neighbor{name.substr(name.rfind('/') + 1), profile.parameters(), profile.fits()};
  if (profile.devices().empty()) return neighbor;
  neighbor.other_gpu = profile.devices().front() != draft.recipe().devices.front();
  std::vector<model::Parameter> figures;
  TRY(topologies::load_device(draft.inputs().devices, profile.devices().front(), figures));
  for (model::Parameter& figure : figures) neighbor.parameters.push_back(std::move(figure));
  return neighbor;
}

struct Scale {
  double factor = 1;
  std::string how;  // ", by device.sms 148/132"
};

model::Result<Scale> scale_of(const Draft& draft, const Neighbor& neighbor) {
  Scale scale;
  const auto add = [&](const std::string& name, bool inverse) -> model::Result<void> {
    const auto own = draft.si(name), other = neighbor.si(name);
    if (!own || !other || *own <= 0 || *other <= 0)
      return draft.wrong(
          inverse ? "step.over" : "step.by",
          fmt::format("{} is not known of {}", name, own && *own > 0 ? neighbor.name : draft.recipe().name),
          "order the steps so that it is, or scale by another one");
    scale.factor *= inverse ? *other / *own : *own / *other;
    scale.how += fmt::format(", {} {} {:.4g}/{:.4g}", inverse ? "over" : "by", name, *own, *other);
    return {};
  };
  if (const auto times = draft.step().times) {
    scale.factor *= *times;
    scale.how += fmt::format(", times {}", *times);
  }
  for (const std::string& name : draft.step().by) TRY(add(name, false));
  for (const std::string& name : draft.step().over) TRY(add(name, true));
  return scale;
}

std::string renamed(const RecipeStep& step, const std::string& name) {
  if (step.rename.empty() || !name.starts_with(step.rename)) return name;
  return step.to + name.substr(step.rename.size());
}

}  // namespace

model::Result<void> take_neighbor_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto neighbor = TRY(neighbor_of(draft));
  const auto scale = TRY(scale_of(draft, neighbor));
  for (const std::string& pattern : step.constants) {
    bool any = false;
    for (const model::Parameter& parameter : neighbor.parameters) {
      if (!model::name_fits(parameter.name, pattern) || parameter.name.starts_with("device.")) continue;
      any = true;
      const std::string of = neighbor.name == "self" ? parameter.name : neighbor.name;
      draft.set(renamed(step, parameter.name), si_value(parameter) * scale.factor, parameter.unit,
                parameter.relative_uncertainty, step.same ? parameter.kind : model::Evidence::assumed,
                fmt::format("as {} ({} {}, {}){}", of, parameter.value, parameter.unit, to_string(parameter.kind),
                            scale.how));
      // Software of one GPU uses another one better or worse as a whole: what is scaled from it errs together.
      if (neighbor.other_gpu && !step.same)
        draft.share(renamed(step, parameter.name), {{"scaled from " + neighbor.name, slowing(parameter)}});
      else
        draft.share(renamed(step, parameter.name), neighbor_errors(draft, neighbor, parameter.name),
                    parameter.relative_uncertainty, fmt::format("{}:{}", step.path, step.line));
    }
    if (!any) return draft.wrong("step.constants", fmt::format("{} has no constant '{}'", neighbor.name, pattern));
  }
  return {};
}

}  // namespace plumbline::calibrate
