// What the loaders of component tables share: the heading of a file, and checks of its rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/components/load.h"
#include "calibrate/measurement/csv_table.h"
#include "model/base/error.h"

namespace plumbline::calibrate::components {

// A file with the heading lines "# gpu: NAME" and "# rows: NUMBER".
class ComponentTable {
 public:
  // Input errors name the file, and the line where there is one: those of CsvTable::read, no such heading, and another
  // GPU than the name of the file's folder.
  static model::Result<ComponentTable> read(const std::string& path, const std::vector<std::string_view>& columns);

  const CsvTable& csv() const { return csv_; }
  // Returns text that is not empty.
  model::Result<std::string> name(std::size_t row, std::string_view column) const;
  // Returns text that is one of `known`; otherwise an error with the nearest of them.
  model::Result<std::string> one_of(std::size_t row, std::string_view column,
                                    std::initializer_list<std::string_view> known) const;
  // Parses a time in microseconds and returns seconds.
  model::Result<double> seconds(std::size_t row, std::string_view column) const;

  // Returns the row's columns that are named by whole numbers (values of `what`) and hold a time; an error for a file
  // without such columns.
  struct Column {
    std::int64_t value = 0;
    std::string name;
  };
  model::Result<std::vector<Column>> filled_columns(std::size_t row, std::string_view what) const;

  // Returns an error when the row's text in `columns`, with what `rest` adds, occurred before.
  model::Result<void> first(std::size_t row, std::initializer_list<std::string_view> columns,
                            std::string_view rest = "");
  // Returns an error when the kernel was faster than 1.05 times the peak of its format.
  model::Result<void> within(const DensePeaks& peaks, std::size_t row, std::string_view column, std::string_view format,
                             double flops, double seconds) const;
  // Returns an error when the heading states another number of rows.
  model::Result<void> complete(std::size_t rows) const;

 private:
  CsvTable csv_;
  std::string path_;
  std::size_t stated_rows_ = 0;
  std::set<std::string, std::less<>> seen_;
};

// Calls `read` for each row; it returns Result<void> or an error that ends the table. Then checks the number of rows.
template <class Row, class Read>
model::Result<std::vector<Row>> read_rows(const std::string& path, const std::vector<std::string_view>& columns,
                                          Read read) {
  auto table = TRY(ComponentTable::read(path, columns));
  std::vector<Row> rows;
  for (std::size_t row = 0; row < table.csv().rows(); ++row) TRY(read(table, row, rows));
  TRY(table.complete(rows.size()));
  return rows;
}

}  // namespace plumbline::calibrate::components
