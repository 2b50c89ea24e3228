// The order of rows by expert, on the host.
#pragma once

#include <cstdint>
#include <vector>

namespace plumbline::real::cuda {

// The rows of each token, ascending, then -1: [tokens, slots], where slots is the maximum over tokens.
struct RowLists {
  std::vector<std::int32_t> rows;
  std::int64_t tokens = 0, slots = 1;
};
// Makes the lists of a row map [n]: the token of each row, -1 for none. The last token must have a row.
RowLists lists_of(const std::vector<std::int32_t>& map);

// Returns where each expert's rows begin [experts + 1], padded to multiples of `alignment`.
std::vector<std::int64_t> row_offsets(const std::vector<std::int64_t>& rows_per_expert, std::int64_t alignment);

}  // namespace plumbline::real::cuda
