// Converts fields of a plan or a model to text and back, for the table of arguments.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "model/base/data_type.h"
#include "model/base/text.h"
#include "model/megatron/model_shape.h"
#include "model/plan/plan_fields.h"

namespace plumbline::model::megatron {

inline std::string text_of_field(std::int64_t value) { return std::to_string(value); }
inline std::string text_of_field(bool value) { return value ? "true" : "false"; }
inline std::string text_of_field(double value) { return fmt::format("{}", value); }
inline std::string text_of_field(const std::string& value) { return value; }
inline std::string text_of_field(Precision value) { return std::string(to_string(value)); }
template <class T>
requires requires(const T& value) { text_of_field(value); }
std::string text_of_field(const std::optional<T>& value) { return value ? text_of_field(*value) : ""; }

template <class Number>
requires std::is_same_v<Number, std::int64_t> || std::is_same_v<Number, double>
bool set_field(Number& field, std::string_view text) {
  const auto parsed = parse_number<Number>(text);
  if (parsed) field = *parsed;
  return parsed.has_value();
}
inline bool set_field(bool& field, std::string_view text) {
  field = text == "true";
  return field || text == "false";
}
inline bool set_field(std::string& field, std::string_view text) {
  field = text;
  return !text.empty();
}
inline bool set_field(Precision& field, std::string_view text) {
  const auto parsed = parse_precision(text);
  if (parsed) field = *parsed;
  return parsed.has_value();
}
template <class T>
requires requires(T& field, std::string_view text) { set_field(field, text); }
bool set_field(std::optional<T>& field, std::string_view text) {
  if (set_field(field.emplace(), text)) return true;
  field.reset();
  return text == "none" || text == "None";
}

// Return the texts of the fields by their names in the table of arguments; those of a plan that an argument can have.
using FieldTexts = std::map<std::string, std::string, std::less<>>;
inline FieldTexts texts_of(const ModelShape& shape) {
  FieldTexts texts;
  visit_shape(shape, [&](std::string_view key, const auto& field) { texts[std::string(key)] = text_of_field(field); });
  return texts;
}
inline FieldTexts texts_of(const Plan& plan) {
  FieldTexts texts;
  visit_fields(plan, [&](std::string_view key, const auto& field) {
    if constexpr (requires { text_of_field(field); }) texts[std::string(key)] = text_of_field(field);
  });
  return texts;
}

}  // namespace plumbline::model::megatron
