// Makers of fields by type. `member` takes a record, constant or not, and returns a reference to the value.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/measurement/detail/measurement_record.h"
#include "model/base/text.h"

namespace plumbline::calibrate::detail {

inline const std::vector<Kind> measured = {Kind::measurement};

// Returns an accessor of a member of a record, or of a member of its members.
template <class... Members>
auto at(Members... members) {
  return [members...](auto& record) -> auto& { return (record.*....*members); };
}

// Makes a text field; an empty text is not written.
template <class Member>
Field text(std::string key, std::vector<Kind> kinds, Member member) {
  const auto set = [member](Record& r, const Value& v) {
    member(r) = v.text;
    return Problem();
  };
  const auto get = [member](const Record& r) {
    const std::string& value = member(r);
    return value.empty() ? std::nullopt : std::optional(Value{value, true});
  };
  return {std::move(key), std::move(kinds), set, get};
}

template <class Member>
Field json_text(std::string key, std::vector<Kind> kinds, Member member) {
  Field field = text(std::move(key), std::move(kinds), member);
  field.set = [member](Record& r, const Value& v) -> Problem {
    if (!is_json_object(v.text)) return "expected a JSON object";
    member(r) = v.text;
    return "";
  };
  field.get = [get = field.get](const Record& r) {
    std::optional<Value> value = get(r);
    if (value) value->quoted = false;
    return value;
  };
  return field;
}

template <class Member>
Field integer(std::string key, std::vector<Kind> kinds, Member member, std::int64_t least) {
  const auto set = [member, least](Record& r, const Value& v) {
    std::int64_t number = 0;
    if (Problem problem = to_integer(v, number); !problem.empty()) return problem;
    if (number < least) return fmt::format("{} is below {}", number, least);
    member(r) = number;
    return Problem();
  };
  const auto get = [member](const Record& r) -> std::optional<Value> {
    const std::optional<std::int64_t>& value = member(r);
    return value ? std::optional(Value{fmt::format("{}", *value)}) : std::nullopt;
  };
  return {std::move(key), std::move(kinds), set, get};
}

template <class Member>
Field number_field(std::string key, Member member, double unit, bool zero) {
  const auto set = [member, unit, zero](Record& r, const Value& v) -> Problem {
    double number = 0;
    if (Problem problem = to_number(v, number); !problem.empty()) return problem;
    if (zero ? number < 0 : number <= 0)
      return fmt::format("{} is {}; what does not apply is left out", v.text, zero ? "negative" : "not above 0");
    const double value = number * unit;
    if (number != 0 && !std::isnormal(value)) return fmt::format("{} is beyond what a number can hold", v.text);
    member(r) = value;
    return Problem();
  };
  const auto get = [member, unit](const Record& r) -> std::optional<Value> {
    const std::optional<double> value = member(r);
    if (!value) return std::nullopt;
    return Value{unit == 1 ? shortest(*value) : fmt::format("{:.15g}", *value / unit)};
  };
  return {std::move(key), measured, set, get};
}

// Makes a field of a number above 0. The file's value times `unit` is the record's.
template <class Member>
Field positive(std::string key, Member member, double unit = 1) {
  return number_field(std::move(key), member, unit, false);
}

template <class Member>
Field not_negative(std::string key, Member member, double unit = 1) {
  return number_field(std::move(key), member, unit, true);
}

// Makes a field of a list of numbers above 0; an empty one is not written.
template <class Member>
Field positives(std::string key, Member member) {
  const auto set = [member](Record& r, const Value& v) -> Problem {
    std::vector<double> numbers;
    for (const std::string_view part : model::split(v.text, ';')) {
      double number = 0;
      if (Problem problem = to_number({std::string(part)}, number); !problem.empty()) return problem;
      if (number <= 0) return fmt::format("{} is not above 0", part);
      numbers.push_back(number);
    }
    member(r) = std::move(numbers);
    return "";
  };
  const auto get = [member](const Record& r) -> std::optional<Value> {
    std::string text;
    for (const double number : member(r)) text += (text.empty() ? "" : ";") + shortest(number);
    return text.empty() ? std::nullopt : std::optional(Value{text});
  };
  return {std::move(key), measured, set, get};
}

// Makes a field of a rate: it is written from work and time, and the value read is kept for comparison.
template <class Stated, class Rate>
Field derived(std::string key, Stated stated, Rate rate, double unit) {
  Field field = positive(std::move(key), stated, unit);
  field.get = [rate, unit](const Record& r) -> std::optional<Value> {
    const std::optional<double> value = (r.measurement.*rate)();
    return value ? std::optional(Value{fmt::format("{:.6g}", *value / unit)}) : std::nullopt;
  };
  return field;
}

}  // namespace plumbline::calibrate::detail
