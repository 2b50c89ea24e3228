// A CSV file with a header as rows of named cells. Lines that start with '#' are comments. Quotes protect commas within
// a line, and two quotes inside quotes are one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::calibrate {

class CsvTable {
 public:
  // Input errors name file and line: a missing file, no header, a needed column that is missing, a row with more or
  // fewer cells than columns.
  static model::Result<CsvTable> read(const std::string& path, const std::vector<std::string_view>& needed);
  static model::Result<CsvTable> parse(std::string_view text, const std::string& path,
                                       const std::vector<std::string_view>& needed);

  // Returns an error about the first of the columns that the header lacks.
  model::Result<void> require(const std::vector<std::string_view>& columns) const;

  std::size_t rows() const { return rows_.size(); }
  const std::vector<std::string>& columns() const { return names_; }  // in the order of the header
  int header_line() const { return header_line_; }                    // of the file
  int line(std::size_t row) const { return rows_[row].line; }         // of the file
  bool has(std::string_view column) const { return columns_.contains(column); }
  const std::string& text(std::size_t row, std::string_view column) const;  // the header has the column
  // Returns the cell of a column that the header may lack, and the parts of one, trimmed; empty where nothing is
  // stated.
  std::string_view stated(std::size_t row, std::string_view column) const;
  std::vector<std::string> parts(std::size_t row, std::string_view column, char separator) const;
  // Returns a number above 0; otherwise an input error with file, line and column.
  model::Result<double> positive(std::size_t row, std::string_view column) const;
  // Returns the same times `unit`, or nothing for an empty cell.
  model::Result<std::optional<double>> optional_positive(std::size_t row, std::string_view column,
                                                         double unit = 1) const;
  // Returns a whole number from 1 to a billion, so that products of two fit 64 bits; otherwise an input error likewise.
  model::Result<std::int64_t> whole(std::size_t row, std::string_view column) const;
  // Returns an error about a row, with file, line and column.
  model::Failure wrong(std::size_t row, std::string_view column, std::string message, std::string hint = "") const;

 private:
  struct Row {
    int line = 0;
    std::vector<std::string> cells;
  };
  std::string path_;
  int header_line_ = 0;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t, std::less<>> columns_;
  std::vector<Row> rows_;
};

}  // namespace plumbline::calibrate
