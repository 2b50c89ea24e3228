// Original component tables, their rows as records, and the files that are made of these.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/measurement/csv_table.h"
#include "model/base/error.h"

namespace plumbline::calibrate::components {

// The layouts of original component tables, and how a row of each becomes a record.

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

// Merges rows of one shape and leaves out rows that their neighbors give by interpolation.
enum class Merge { median, least };

// Returns one record for each combination of keys, ordered by keys: the median of each value (of an even number the
// mean of the middle two), or the least. Keys of digits are ordered as numbers.
std::vector<Record> merged(std::vector<Record> records, Merge merge);

// Keeps of each series (records that differ in the key `axis` alone) both ends, then repeatedly the record that linear
// interpolation of ln value over ln axis misses most, until none is missed by more than `tolerance`. Takes and returns
// merged records, in their order.
std::vector<Record> thinned(std::vector<Record> records, std::size_t axis, double tolerance);

// Writes a component table: heading, and one line per record or, where records fill the grid, per all keys but the
// last.
struct TableHeading {
  std::string gpu;                                 // folder
  std::set<std::string> names;                     // of the GPU in the originals
  std::set<std::string> sources, licenses, notes;  // lines
  std::size_t read = 0;                            // rows of the originals
  std::size_t merged = 0;                          // rows that are gone because another has their shape
  std::map<std::string, std::size_t> thinned;      // rows left out, by the axis of interpolation
  std::map<std::string, std::size_t> losses;       // rows left out, by reason
};

std::string table_text(const Layout& layout, const TableHeading& heading, const std::vector<Record>& records);

}  // namespace plumbline::calibrate::components
