// What the loaders of component tables share: the heading of a file, and its columns as fields of a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "calibrate/measurement/csv_table.h"
#include "model/base/error.h"

namespace plumbline::calibrate::components {

// A column and the field that it fills: text that is not empty, or one of `known`; whether it is the second of two
// known texts; a whole number; a number above 0.
template <class Row>
struct Column {
  using Field = std::variant<std::monostate, std::string Row::*, bool Row::*, std::int64_t Row::*, double Row::*>;
  Column(std::string_view of, Field to = {}, std::vector<std::string_view> texts = {})
      : name(of), field(to), known(std::move(texts)) {}

  std::string_view name;
  Field field;
  std::vector<std::string_view> known;
};

// Parses a time in microseconds.
template <class Row>
model::Result<void> read_microseconds(const CsvTable& csv, std::size_t at, const std::string& column, Row& row) {
  constexpr double microsecond = 1e-6;
  row.seconds = TRY(csv.positive(at, column)) * microsecond;
  return {};
}

template <class Row>
struct TableForm {
  std::vector<Column<Row>> columns;              // of a shape, but for numbers above 0
  std::vector<std::string> times = {"time_us"};  // columns, each the time of a row of its own
  std::string_view swept = {};                   // there may be columns of times named by its
  std::int64_t Row::*swept_field = nullptr;      // values in place of time_us
  model::Result<void> (*finish)(const CsvTable&, std::size_t at, Row&) = nullptr;  // reads the rest, and checks
  model::Result<void> (*read_time)(const CsvTable&, std::size_t at, const std::string& column,
                                   Row&) = read_microseconds<Row>;
};

// A file with the heading lines "# gpu: NAME" and "# rows: NUMBER".
class ComponentTable {
 public:
  // Input errors name the file, and the line where there is one: those of CsvTable::read, no such heading, and another
  // GPU than the name of the file's folder.
  static model::Result<ComponentTable> read(const std::string& path, const std::vector<std::string_view>& columns);

  const CsvTable& csv() const { return csv_; }
  // Returns the row's columns that are named by whole numbers (values of `what`) and hold a time, or its value of
  // `what` where the file has this column and time_us; an error for a file without either.
  struct Time {
    std::int64_t value = 0;
    std::string column;
  };
  model::Result<std::vector<Time>> swept_times(std::size_t at, std::string_view what) const;
  // Returns an error when the shape occurred before.
  model::Result<void> first(std::size_t at, const std::string& shape);
  // Returns an error when the heading states another number of rows.
  model::Result<void> complete(std::size_t rows) const;

 private:
  CsvTable csv_;
  std::string path_;
  std::size_t stated_rows_ = 0;
  std::set<std::string> seen_;
};

// Returns text that is not empty, or one of `known` where there are any; otherwise an error with the nearest of them.
model::Result<std::string> read_text(const CsvTable& csv, std::size_t at, std::string_view column,
                                     const std::vector<std::string_view>& known);

template <class Row>
model::Result<void> read_cell(const CsvTable& csv, std::size_t at, const Column<Row>& column, Row& row) {
  if (const auto* text = std::get_if<std::string Row::*>(&column.field))
    row.** text = TRY(read_text(csv, at, column.name, column.known));
  if (const auto* flag = std::get_if<bool Row::*>(&column.field))
    row.** flag = TRY(read_text(csv, at, column.name, column.known)) == column.known.back();
  if (const auto* count = std::get_if<std::int64_t Row::*>(&column.field))
    row.** count = TRY(csv.whole(at, column.name));
  if (const auto* number = std::get_if<double Row::*>(&column.field))
    row.** number = TRY(csv.positive(at, column.name));
  return {};
}

template <class Row>
model::Result<std::vector<Row>> read_rows(const std::string& path, const TableForm<Row>& form) {
  const bool sweeps = !form.swept.empty();
  std::vector<std::string_view> needed;
  for (const Column<Row>& column : form.columns) needed.push_back(column.name);
  if (!sweeps) needed.insert(needed.end(), form.times.begin(), form.times.end());
  auto table = TRY(ComponentTable::read(path, needed));
  const CsvTable& csv = table.csv();
  std::vector<ComponentTable::Time> times;
  for (const std::string& column : form.times) times.push_back({0, column});
  std::vector<Row> rows;
  for (std::size_t at = 0; at < csv.rows(); ++at) {
    Row row;
    std::string shape;
    for (const Column<Row>& column : form.columns) {
      TRY(read_cell(csv, at, column, row));
      if (!std::holds_alternative<double Row::*>(column.field)) shape += csv.text(at, column.name) + ",";
    }
    if (form.finish != nullptr) TRY(form.finish(csv, at, row));
    if (sweeps) times = TRY(table.swept_times(at, form.swept));
    for (const auto& [value, column] : times) {
      if (sweeps) row.*form.swept_field = value;
      TRY(form.read_time(csv, at, column, row));
      TRY(table.first(at, shape + (sweeps ? std::to_string(value) : column)));
      rows.push_back(row);
    }
  }
  TRY(table.complete(rows.size()));
  return rows;
}

}  // namespace plumbline::calibrate::components
