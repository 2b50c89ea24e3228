#include "reports/csv/csv_table.h"

#include <fmt/format.h>

#include <cmath>

namespace plumbline::reports {

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string csv_cell(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string csv_cell(const std::optional<double>& value) { return value ? csv_cell(*value) : ""; }

void CsvTable::add(const std::vector<std::string>& cells) {
  for (const std::string& cell : cells) {
    if (&cell != &cells.front()) text_ += ',';
    text_ += csv_field(cell);
  }
  text_ += '\n';
}

}  // namespace plumbline::reports
