// The table of fields of a measurement record: each key once, with how it is read and written.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/detail/measurement_record.h"

namespace plumbline::calibrate::detail {

using Problem = std::string;  // what is wrong with a value; "" when nothing is

struct Field {
  std::string key;
  std::vector<Kind> kinds;  // of record that have it
  std::function<Problem(Record&, const Value&)> set;
  std::function<std::optional<Value>(const Record&)> get;  // nullopt: not written
};

// In the order in which fields are written; the shape's extents stand between the two parts.
struct FieldTable {
  std::vector<Field> head, values;

  FieldTable();
  const Field* find(std::string_view key) const;  // nullptr when there is none
};

Problem to_number(const Value& value, double& number);  // finite
Problem to_integer(const Value& value, std::int64_t& number);
bool is_json_object(const std::string& text);
std::string shortest(double number);  // the fewest digits that read back equal

}  // namespace plumbline::calibrate::detail
