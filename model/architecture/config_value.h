// Keys of a model's config.json that a plan replaces.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

namespace plumbline::model {

using ConfigValue = std::variant<bool, std::int64_t, double, std::string>;
using ConfigOverrides = std::map<std::string, ConfigValue>;  // by the key's name in the config.json

inline std::optional<double> number_of(const ConfigValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  const auto* number = std::get_if<double>(&value);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

}  // namespace plumbline::model
