// One line of a measurement file as fields with text values: the same keys in JSON Lines and in CSV.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"

namespace plumbline::calibrate::detail {

// A value as written; `quoted` when it is a JSON string.
struct Value {
  std::string text;
  bool quoted = false;
};
// Keys of nested objects are joined by dots ("time_us.p50"); algorithm and environment stay one JSON text.
using Fields = std::vector<std::pair<std::string, Value>>;

struct Line {
  int number = 0;  // in the file, from 1
  Fields fields;
};

enum class Kind { measurement, failure, environment };

// A line of any of the three kinds; fields that the kind does not use are empty.
struct Record {
  Kind kind = Kind::measurement;
  Measurement measurement;
  std::string reason;                                        // failure
  std::string environment;                                   // environment
  std::optional<double> stated_flop_rate, stated_byte_rate;  // as read, in SI
};

// Converts fields to a record; errors name the key, but not file and line.
model::Result<Record> to_record(const Fields& fields);
Fields to_fields(const Record& record);

// Returns the position of a key in the order of a record's keys; those of the shape share one position.
std::size_t place_of(std::string_view key);

// Returns every record of a file, in order: environments, measurements, failures.
std::vector<Record> records_of(const Measurements& measurements);

model::Result<std::vector<Line>> read_json_lines(std::string_view text, const std::string& path,
                                                 std::vector<std::string>& notes);
model::Result<std::vector<Line>> read_csv_lines(std::string_view text, const std::string& path);

// Whether a key's value is a list of numbers: an array in JSON Lines, elements between semicolons in CSV.
bool is_list(std::string_view key);

// Whether a key's value is a JSON object kept as text.
bool is_json_text(std::string_view key);

// Returns 2 m n k of all groups of a GEMM; nullopt when the shape lacks an extent.
std::optional<double> gemm_flops(const Measurement& measurement);

// Checks the relations between the values of one measurement; errors name the key.
model::Result<void> check_values(const Record& record);
// Checks the rates against the datasheet peaks.
model::Result<void> check_peaks(const Measurement& measurement, const model::Device& device);

using Problem = std::string;  // what is wrong with a value; "" when nothing is

struct Field {
  std::string key;
  std::vector<Kind> kinds;  // the kinds of record that have it
  std::function<Problem(Record&, const Value&)> set;
  std::function<std::optional<Value>(const Record&)> get;  // nullopt: not written
};

// The fields in the order of writing; the shape's extents stand between the two parts.
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
