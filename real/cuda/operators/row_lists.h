// The order of rows by expert as the host sees it.
#pragma once

#include <cstdint>
#include <vector>

namespace plumbline::real::cuda {

// The rows of each token, ascending, -1 behind them: [tokens, slots], slots the most of any token.
struct RowLists {
  std::vector<std::int32_t> rows;
  std::int64_t tokens = 0, slots = 1;
};
// Of a row map [n]: the token of each row, -1 for none. The last token has a row.
RowLists lists_of(const std::vector<std::int32_t>& map);

// Where each expert's rows begin [experts + 1], filled up to multiples of `alignment`.
std::vector<std::int64_t> row_offsets(const std::vector<std::int64_t>& rows_per_expert, std::int64_t alignment);

}  // namespace plumbline::real::cuda
