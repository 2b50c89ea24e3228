#include "model/cost/constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "model/base/random.h"
#include "model/base/units.h"

namespace plumbline::model {

std::optional<Constant> ConstantReader::find(std::string_view name) {
  const std::optional<std::size_t> index = profile_.find(name);
  if (!index) return std::nullopt;
  const Parameter& parameter = profile_.parameters()[*index];
  const Result<SiUnit> unit = si_unit(parameter.unit);
  if (!unit) {
    if (!error_) {
      error_ = unit.error();
      error_->key = parameter.name;
    }
    return Constant{};
  }
  return Constant{static_cast<std::int32_t>(*index), parameter.value * unit->factor};
}

bool ConstantReader::any(std::string_view prefix) const {
  const auto first = std::ranges::lower_bound(profile_.parameters(), prefix, {},
                                              [](const Parameter& one) { return std::string_view(one.name); });
  return first != profile_.parameters().end() && first->name.starts_with(prefix);
}

double ConstantReader::value(std::string_view name, double absent) {
  return find(name).value_or(Constant{.value = absent}).value;
}

Constant ConstantReader::require(std::string_view name) { return require_either(name, name); }

Constant ConstantReader::require_either(std::string_view name, std::string_view fallback) {
  if (const auto constant = find(name)) return *constant;
  if (const auto constant = find(fallback)) return *constant;
  if (!error_)
    error_ = Error{ErrorKind::input,
                   fmt::format("profile '{}' lacks the constant {}", profile_.name(), fallback),
                   "",
                   0,
                   std::string(fallback),
                   "add it, or `extends` a profile that has it"};
  return {};
}

std::string_view to_string(CostFamily family) {
  constexpr std::array<std::string_view, cost_families> names = {
      "gemm",       "grouped_gemm", "attention",          "memory_bound",    "collective",
      "all_to_all", "small_gemm",   "small_grouped_gemm", "cached_attention"};
  return names[static_cast<std::size_t>(family)];
}

ShapeKey shape_key(CostFamily family, std::initializer_list<double> numbers) {
  std::uint64_t hash = 0;
  for (const double number : numbers) hash = Random(hash ^ static_cast<std::uint64_t>(std::llround(number))).next();
  return {family, hash};
}

}  // namespace plumbline::model
