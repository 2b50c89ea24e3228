#include "topologies/parameter_taker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plumbline::topologies {

using model::UnitDimension;

namespace {

// In SI, far from any hardware: what lies beyond makes times infinite.
struct Range {
  double low = 0, high = 1e15;
};

Range range_of(UnitDimension dimension, double longest_s) {
  switch (dimension) {
    case UnitDimension::count:
      return {0, 1e9};
    case UnitDimension::seconds:
      return {0, longest_s};
    case UnitDimension::bytes_per_second:
      return {1e3, 1e18};
    case UnitDimension::flops_per_second:
      return {1e6, 1e21};
    case UnitDimension::bytes:
      return {0, 1e18};
    default:
      return {};
  }
}

}  // namespace

double ParameterTaker::take(std::string_view name, UnitDimension dimension, bool may_be_zero) {
  return take(name, dimension, may_be_zero, dimension == UnitDimension::count);
}

double ParameterTaker::ratio(std::string_view name, double least, double most) {
  const double value = take(name, UnitDimension::count, false, false);
  if (value >= least && value <= most) return value;
  fail(name, fmt::format("{} is out of range", value), fmt::format("a value from {} to {} is expected", least, most));
  return 1;
}

double ParameterTaker::amount(std::string_view name, UnitDimension dimension, std::optional<double> fallback) {
  return !fallback || has(name) ? take(name, dimension, true, false) : *fallback;
}

double ParameterTaker::take(std::string_view name, UnitDimension dimension, bool may_be_zero, bool whole) {
  const model::ParameterFile::Number* number = file_.number(name);
  taken_.emplace_back(name);
  if (number == nullptr) {
    missing_.emplace_back(name);
    return 1;
  }
  const model::Parameter& parameter = number->parameter;
  const auto unit = model::si_unit(parameter.unit);
  if (!unit) {
    fail(name, unit.error().message, unit.error().hint);
    return 1;
  }
  if (unit->dimension != dimension) {
    fail(name,
         fmt::format("unit '{}' gives {}, expected {}", parameter.unit, to_string(unit->dimension),
                     to_string(dimension)),
         "");
    return 1;
  }
  const double value = parameter.value * unit->factor;
  const Range range = range_of(dimension, longest_s_);
  const bool in_range = (may_be_zero && value == 0) || (value > 0 && value >= range.low && value <= range.high);
  const bool not_a_count = whole && value != std::floor(value);
  if (!in_range || not_a_count) {
    const std::string in_unit = dimension == UnitDimension::count ? "" : " " + parameter.unit;
    fail(name, fmt::format("{}{} is out of range", parameter.value, in_unit),
         in_range ? "a count is a whole number"
                  : fmt::format("a value {} up to {:.6g}{} is expected", may_be_zero ? "from 0" : "above 0",
                                range.high / unit->factor, in_unit));
    return 1;
  }
  parameters_.push_back(parameter);
  parameters_.back().name = prefix_ + std::string(name);
  return value;
}

std::int64_t ParameterTaker::count(std::string_view name, bool may_be_zero) {
  return static_cast<std::int64_t>(take(name, UnitDimension::count, may_be_zero));
}

std::optional<model::Error> ParameterTaker::finish() {
  if (!missing_.empty())
    fail(missing_.front(),
         missing_.size() == 1 ? "required entry is missing"
                              : fmt::format("required entries are missing: {}", fmt::join(missing_, ", ")),
         "write each as { value, unit, kind, source }");
  for (const model::ParameterFile::Number& number : file_.numbers) {
    if (std::ranges::find(taken_, number.parameter.name) != taken_.end()) continue;
    fail(number.parameter.name, "unknown entry", model::did_you_mean(number.parameter.name, taken_));
  }
  return error_;
}

void ParameterTaker::fail(std::string_view name, std::string message, std::string hint) {
  if (error_) return;
  const model::ParameterFile::Number* number = file_.number(name);
  error_ = model::Error{model::ErrorKind::input,
                        std::move(message),
                        number == nullptr ? file_.path : number->path,
                        number == nullptr ? 0 : number->line,
                        std::string(name),
                        std::move(hint)};
}

}  // namespace plumbline::topologies
