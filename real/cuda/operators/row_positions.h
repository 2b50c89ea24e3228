// Where the rows of each received token lie: the row map read the other way round. permute leaves it with the row map,
// and sums over a token's rows read it there.
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

  std::int32_t* data() const { return memory.as<std::int32_t>(); }
};

// Memory for that many with the row map; what is there is taken where it is large enough.
Status make_positions(CudaBuffer& map, std::int64_t tokens, std::int64_t slots);

// Those of a row map whose permute has not run, because the operator is launched alone: waits for the stream and reads
// the map.
Status find_positions(const Call& call, CudaBuffer& map);

// The same on the host, [tokens * slots], of a map [n] of tokens or -1; slots is set to the most rows of a token.
std::vector<std::int32_t> positions_of(const std::vector<std::int32_t>& map, std::int64_t& tokens, std::int64_t& slots);

// Where each expert's rows begin [experts + 1], filled up to multiples of `alignment`.
std::vector<std::int64_t> row_offsets(const std::vector<std::int64_t>& rows_per_expert, std::int64_t alignment);

}  // namespace plumbline::real::cuda
