// The layouts of original component tables, and how a row of each becomes a record.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/csv_table.h"
#include "model/base/error.h"

namespace plumbline::calibrate::components {

// One row of an original table. Keys are in the order of the layout; times are in microseconds.
struct Record {
  std::vector<std::string> keys;
  std::vector<double> values;
  std::string left_out;  // the reason; empty: it is kept
};

struct Layout {
  std::string_view file;                 // "attention.csv"
  std::string_view what;                 // what the file holds, for its heading
  std::vector<std::string_view> needed;  // columns that the original has, by which it is recognized
  std::vector<std::string_view> keys, values;
  std::string_view axis;  // the key along which rows are thinned; empty: all stay
  int digits = 5;         // significant digits of times
  model::Result<Record> (*record)(const CsvTable& csv, std::size_t row) = nullptr;
};

// Returns every layout; one whose columns contain those of another stands before it.
const std::vector<Layout>& layouts();

// Returns the folder of a GPU by its name in the original ("H100 SXM 80GB": h100), or nothing for a GPU without a
// device file here.
std::string gpu_folder(std::string_view name);

}  // namespace plumbline::calibrate::components
