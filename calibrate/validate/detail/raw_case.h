// A validation case as written in its file, before alternatives are expanded and measurements are read.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/validate/validation_case.h"
#include "model/base/error.h"

namespace plumbline::calibrate::detail {

struct RawFigure {
  Figure figure;                                  // with `metric`, `name` and `row` as written
  std::string row;                                // ids of rows of the case's table
  std::string published;                          // metric of the case's chunk whose value it takes; empty: as `metric`
  std::optional<double> value;                    // as written
  std::map<std::string, int, std::less<>> lines;  // of each key; "" for the table itself
  int line_of(std::string_view key) const;        // the table's line when it lacks the key
};

struct RawCase {
  ValidationCase definition;  // without figures
  std::string source;         // of figures that state none; may be empty
  std::string chunk, table;   // names of measurements; may be empty
  int chunk_line = 0, table_line = 0;
  std::vector<RawFigure> figures;
  std::vector<int> aggregate_lines;
};

model::Result<RawCase> read_raw_case(const std::string& path);

}  // namespace plumbline::calibrate::detail
