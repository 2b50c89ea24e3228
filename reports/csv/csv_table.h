// Tables as CSV by RFC 4180: a header, a row each line, lines that end in a line feed.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::reports {

// Returns a field of a CSV file: with a comma, quote or line break it is quoted, its quotes doubled.
std::string csv_field(std::string_view text);

// Return a cell: a number with enough digits to read back the same double, true or false, a text as it is. What was not
// computed is empty.
std::string csv_cell(double value);
std::string csv_cell(const std::optional<double>& value);
template <std::integral Value>
std::string csv_cell(Value value) {
  if constexpr (std::same_as<Value, bool>)
    return value ? "true" : "false";
  else
    return std::to_string(value);
}
inline std::string csv_cell(std::string_view value) { return std::string(value); }

// A table that is written row by row. Columns have the names of the keys of the JSON output, with their units.
class CsvTable {
 public:
  explicit CsvTable(const std::vector<std::string>& columns) { add(columns); }

  void add(const std::vector<std::string>& cells);
  template <class... Cells>
  void row(const Cells&... cells) {
    add({csv_cell(cells)...});
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace plumbline::reports
