// One line of a CSV file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::calibrate {

// Returns the cells of one line: quotes protect commas, and two quotes inside quotes are one. Returns nullopt when a
// quoted cell does not end on the line.
std::optional<std::vector<std::string>> csv_cells(std::string_view line);

}  // namespace plumbline::calibrate
