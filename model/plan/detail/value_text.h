// The values of keys of a plan as TOML.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/base/text.h"
#include "model/plan/plan.h"

namespace plumbline::model {

inline std::string text_of(const std::string& value) { return toml_string(value); }
inline std::string text_of(std::int64_t value) { return fmt::format("{}", value); }
// Returns the shortest digits that read back to the same double, marked as a TOML float.
inline std::string text_of(double value) {
  const std::string digits = fmt::format("{}", value);
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}
inline std::string text_of(bool value) { return value ? "true" : "false"; }
inline std::string text_of(Precision value) { return toml_string(to_string(value)); }
inline std::string text_of(const ConfigValue& value) {
  return std::visit([](const auto& alternative) { return text_of(alternative); }, value);
}

template <class T>
std::string text_of(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ", ") + text_of(value);
  return "[" + text + "]";
}

inline std::string text_of(const StageLayers& layers) {
  return layers.counts.empty() ? toml_string(layers.even ? "even" : "balanced") : text_of(layers.counts);
}

inline std::string text_of(const AcceptanceShares& acceptance) {
  return acceptance.shares.size() == 1 ? text_of(acceptance.shares.front()) : text_of(acceptance.shares);
}

inline std::string text_of(const TierShares& shares) {
  std::string text;
  for (const auto& [tier, share] : shares)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", tier, text_of(share));
  return "{ " + text + " }";
}

// Returns the value as people name it, a string without its quotes; "" where an optional one is not set.
template <class T>
std::string word_of(const T& value) {
  return text_of(value);
}
inline std::string word_of(const std::string& value) { return value; }
inline std::string word_of(Precision value) { return std::string(to_string(value)); }
inline std::string word_of(const std::vector<std::string>& values) {
  return values.empty() ? "none" : fmt::format("{}", fmt::join(values, ", "));
}
template <class T>
std::string word_of(const std::optional<T>& value) {
  return value ? word_of(*value) : "";
}

}  // namespace plumbline::model
