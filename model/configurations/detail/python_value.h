// Values of Python as its reader has them, and what its operators make of them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {

struct PythonValue;
using PythonFields = std::vector<std::pair<std::string, PythonValue>>;

struct PythonValue {
  enum class Kind { scalar, list, call, unread };
  Kind kind = Kind::scalar;
  std::string text;  // empty: None; of a call what is called, of what is not read its expression
  int line = 0;
  std::size_t size = 1;  // values in it; a hundred letters count as one
  std::vector<PythonValue> items = {};
  PythonFields* fields = nullptr;  // copies have the same, as names of one object in Python; owned by the reader
};

// Returns the field of that name; nullptr where there is none.
inline PythonValue* find_field(const PythonValue& value, std::string_view name) {
  if (value.fields == nullptr) return nullptr;
  const auto found = std::ranges::find(*value.fields, name, &PythonFields::value_type::first);
  return found == value.fields->end() ? nullptr : &found->second;
}
// Returns a value of a condition; one that is unread and without text where it is not decided.
inline PythonValue decided(std::optional<bool> is, int line) {
  if (!is) return {PythonValue::Kind::unread, "", line};
  return {PythonValue::Kind::scalar, *is ? "true" : "false", line};
}
inline std::optional<bool> truth(const PythonValue& value) {
  if (value.kind == PythonValue::Kind::list) return !value.items.empty();
  if (value.kind != PythonValue::Kind::scalar) return std::nullopt;
  return !value.text.empty() && value.text != "false" && value.text != "0";
}
inline std::optional<bool> equal(const PythonValue& left, const PythonValue& right) {
  using enum PythonValue::Kind;
  if (left.kind == unread || right.kind != scalar || (left.kind == call && !right.text.empty())) return std::nullopt;
  return left.kind == scalar && left.text == right.text;
}
// Returns a key of a dictionary as its fields are named: "(4, 2)" of a tuple.
inline std::optional<std::string> key_of(const PythonValue& value) {
  if (value.kind == PythonValue::Kind::scalar) return value.text;
  std::vector<std::string> parts;
  for (const PythonValue& item : value.items)
    if (item.kind == PythonValue::Kind::scalar) parts.push_back(item.text);
  if (value.kind != PythonValue::Kind::list || parts.size() != value.items.size()) return std::nullopt;
  return fmt::format("({})", fmt::join(parts, ", "));
}
// Returns whether a list has an item, or an object a field: only of a dictionary that is written out all are known.
inline std::optional<bool> holds(const PythonValue& whole, const PythonValue& part) {
  const auto key = key_of(part);
  if (!key) return std::nullopt;
  if (find_field(whole, *key) != nullptr) return true;
  bool known = whole.kind == PythonValue::Kind::list || (whole.text == "dict" && whole.items.empty());
  for (const PythonValue& item : whole.items) {
    const auto other = key_of(item);
    if (other == key) return true;
    known = known && other;
  }
  return known ? std::optional(false) : std::nullopt;
}

inline std::optional<std::int64_t> whole_number(const PythonValue& value) {
  return value.kind == PythonValue::Kind::scalar ? parse_number<std::int64_t>(value.text) : std::nullopt;
}

inline PythonValue added(PythonValue left, PythonValue right) {
  const auto one = whole_number(left), other = whole_number(right);
  std::int64_t result = 0;
  if (one && other && !__builtin_add_overflow(*one, *other, &result)) {
    left.text = std::to_string(result);
  } else if (left.kind == PythonValue::Kind::list && right.kind == left.kind) {
    left.size += right.size;
    std::ranges::move(right.items, std::back_inserter(left.items));
  } else {
    return decided({}, left.line);
  }
  return left;
}

// A list that is multiplied is repeated. That of a number of prediction modules that is not known is taken once: it
// is the model's.
inline PythonValue multiplied(PythonValue left, PythonValue right) {
  if (right.kind == PythonValue::Kind::list) std::swap(left, right);
  const auto one = whole_number(left), times = whole_number(right);
  std::int64_t result = 0;
  if (one && times && !__builtin_mul_overflow(*one, *times, &result)) {
    left.text = std::to_string(result);
    return left;
  }
  if (left.kind != PythonValue::Kind::list) return decided({}, left.line);
  const auto predicts = [](const PythonValue& item) { return item.text == "mtp"; };
  if (right.kind == PythonValue::Kind::unread && std::ranges::all_of(left.items, predicts)) return left;
  const std::size_t count = times ? static_cast<std::size_t>(std::max<std::int64_t>(0, *times)) : kMostValues;
  if (count >= kMostValues || left.size * count > kMostValues) return decided({}, left.line);
  PythonValue repeated{left.kind, "", left.line, 1 + left.size * count};
  for (std::size_t i = 0; i < count; ++i) std::ranges::copy(left.items, std::back_inserter(repeated.items));
  return repeated;
}

// The attribute that an object has, or the third argument where no statement that is read sets it: a function of the
// texts that are read with a file, which ask for what the file states.
inline constexpr std::string_view kStated = "_stated";

// NeMo-Run's configuration of an object: the class or function, whose arguments are the keywords. It becomes an object
// with that name as _target_, as YAML has it.
inline bool is_deferred(std::string_view name) {
  if (name.starts_with("run.")) name.remove_prefix(4);
  return name == "Config" || name == "Partial";
}
inline void take_target(PythonValue& value) {
  if (value.items.empty()) return;
  PythonValue target{PythonValue::Kind::scalar, value.items.front().text, value.line};
  value.text = "dict";
  value.items.erase(value.items.begin());
  value.fields->emplace_back("_target_", std::move(target));
}

// Returns what an object has under a key, else what stands for it.
inline PythonValue entry(const PythonValue& object, const PythonValue& key, const PythonValue* silent) {
  const auto name = key_of(key);
  if (const PythonValue* found = name ? find_field(object, *name) : nullptr) return *found;
  return silent != nullptr && holds(object, key) == false ? *silent : decided({}, key.line);
}

}  // namespace plumbline::model::configurations
