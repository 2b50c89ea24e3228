#include "real/cuda/operators/row_lists.h"

#include <algorithm>
#include <cstddef>

#include "real/cuda/kernels/arithmetic/row_order.h"

namespace plumbline::real::cuda {

// Every received token has at least one local expert, so that the largest number in the map is the last token.
RowLists lists_of(const std::vector<std::int32_t>& map) {
  RowLists lists;
  for (const std::int32_t token : map) lists.tokens = std::max<std::int64_t>(lists.tokens, token + 1);
  std::vector<std::int64_t> used(static_cast<std::size_t>(lists.tokens));
  for (const std::int32_t token : map)
    if (token >= 0) lists.slots = std::max(lists.slots, ++used[static_cast<std::size_t>(token)]);
  lists.rows.assign(static_cast<std::size_t>(lists.tokens * lists.slots), -1);
  std::fill(used.begin(), used.end(), 0);
  for (std::size_t row = 0; row < map.size(); ++row) {
    if (map[row] < 0) continue;
    const std::int64_t slot = used[static_cast<std::size_t>(map[row])]++;
    lists.rows[static_cast<std::size_t>(map[row] * lists.slots + slot)] = static_cast<std::int32_t>(row);
  }
  return lists;
}

std::vector<std::int64_t> row_offsets(const std::vector<std::int64_t>& rows_per_expert, std::int64_t alignment) {
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t rows : rows_per_expert) offsets.push_back(offsets.back() + aligned_rows(rows, alignment));
  return offsets;
}

}  // namespace plumbline::real::cuda
