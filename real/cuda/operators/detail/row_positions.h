// The rows of each received token: the inverse of the row map. permute stores it with the row map, and sums over a
// token's rows read it there.
#pragma once

#include <cstdint>
#include <vector>

#include "real/cuda/device/buffer.h"
#include "real/cuda/memory.h"
#include "real/cuda/operators/call.h"

namespace plumbline::real::cuda {

struct RowPositions {
  DeviceMemory memory;  // [tokens, slots] int32: a row, or -1
  std::int64_t tokens = 0, slots = 0;
  bool of_choice = false;  // slots are those of the choice of experts; otherwise a token's rows come first, ascending

  std::int32_t* data() const { return memory.as<std::int32_t>(); }
};

// Provides memory of that size with the row map; existing memory is reused if it is large enough.
Status make_positions(CudaBuffer& map, std::int64_t tokens, std::int64_t slots, bool of_choice);

// Makes the positions of a row map whose permute has not run, because the operator is launched alone. It waits for the
// stream and reads the map.
Status find_positions(const Call& call, CudaBuffer& map);

// --- The order of rows by expert, on the host ---

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
