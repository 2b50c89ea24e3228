// Writes a component table: heading, and one line per record or, where records fill the grid, per all keys but the
// last.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "calibrate/import/components/detail/layouts.h"

namespace plumbline::calibrate::components {

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
