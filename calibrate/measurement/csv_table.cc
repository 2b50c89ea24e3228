#include "calibrate/measurement/csv_table.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::calibrate {

namespace {

// Returns the cells of one line; nullopt when a quoted cell does not end on it.
std::optional<std::vector<std::string>> csv_cells(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return quoted ? std::nullopt : std::optional(cells);
}

}  // namespace

model::Result<CsvTable> CsvTable::read(const std::string& path, const std::vector<std::string_view>& needed) {
  return parse(TRY(model::read_text_file(path)), path, needed);
}

model::Result<CsvTable> CsvTable::parse(std::string_view text, const std::string& path,
                                        const std::vector<std::string_view>& needed) {
  const auto wrong = [&](int line, std::string_view column, std::string message) {
    return model::wrong_input_at(path, line, std::string(column), std::move(message));
  };
  CsvTable table;
  table.path_ = path;
  int number = 0;
  for (const std::string_view line : model::lines_of(text)) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    std::optional<std::vector<std::string>> cells = csv_cells(line);
    if (!cells) return wrong(number, "", "a quote is not closed on this line");
    if (table.columns_.empty()) {
      for (std::size_t i = 0; i < cells->size(); ++i)
        if (!table.columns_.emplace((*cells)[i], i).second)
          return wrong(number, (*cells)[i], "two columns have this name");
      table.names_ = std::move(*cells);
      table.header_line_ = number;
      TRY(table.require(needed));
    } else if (cells->size() != table.columns_.size()) {
      return wrong(number, "", fmt::format("{} cells under {} columns", cells->size(), table.columns_.size()));
    } else {
      table.rows_.push_back({number, std::move(*cells)});
    }
  }
  if (table.columns_.empty()) return wrong(0, "", "no header");
  return table;
}

model::Result<void> CsvTable::require(const std::vector<std::string_view>& columns) const {
  for (const std::string_view column : columns)
    if (!has(column)) return model::wrong_input_at(path_, header_line_, std::string(column), "the column is missing");
  return {};
}

const std::string& CsvTable::text(std::size_t row, std::string_view column) const {
  return rows_[row].cells[columns_.find(column)->second];
}

std::string_view CsvTable::stated(std::size_t row, std::string_view column) const {
  return has(column) ? text(row, column) : std::string_view();
}

std::vector<std::string> CsvTable::parts(std::size_t row, std::string_view column, char separator) const {
  std::vector<std::string> found;
  if (!stated(row, column).empty())
    for (const std::string_view part : model::split_at(stated(row, column), separator))
      found.emplace_back(model::trimmed(part));
  return found;
}

model::Result<std::optional<double>> CsvTable::optional_positive(std::size_t row, std::string_view column,
                                                                 double unit) const {
  if (text(row, column).empty()) return std::nullopt;
  return positive(row, column).map([unit](double value) { return std::optional(value * unit); });
}

model::Result<double> CsvTable::positive(std::size_t row, std::string_view column) const {
  const std::string& cell = text(row, column);
  const auto value = model::parse_number<double>(cell);
  if (value && *value > 0 && std::isfinite(*value)) return *value;
  return wrong(row, column, fmt::format("'{}' is no number above 0", cell));
}

model::Result<std::int64_t> CsvTable::whole(std::size_t row, std::string_view column) const {
  constexpr double most = 1e9;
  const auto value = TRY(positive(row, column));
  if (value == std::floor(value) && value <= most) return static_cast<std::int64_t>(value);
  return wrong(row, column, fmt::format("'{}' is no whole number up to a billion", text(row, column)));
}

model::Failure CsvTable::wrong(std::size_t row, std::string_view column, std::string message, std::string hint) const {
  return model::wrong_input_at(path_, rows_[row].line, std::string(column), std::move(message), std::move(hint));
}

}  // namespace plumbline::calibrate
