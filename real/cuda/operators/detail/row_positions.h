// Where the rows of each received token lie: the row map read the other way round. permute leaves it with the row map,
// and sums over a token's rows read it there.
#pragma once

#include <cstdint>

#include "real/cuda/device/buffer.h"
#include "real/cuda/memory.h"
#include "real/cuda/operators/call.h"

namespace plumbline::real::cuda {

struct RowPositions {
  DeviceMemory memory;  // [tokens, slots] int32: a row, or -1
  std::int64_t tokens = 0, slots = 0;
  bool of_choice = false;  // slots are those of the choice of experts; else a token's rows come first, ascending

  std::int32_t* data() const { return memory.as<std::int32_t>(); }
};

// Memory for that many with the row map; what is there is taken where it is large enough.
Status make_positions(CudaBuffer& map, std::int64_t tokens, std::int64_t slots, bool of_choice);

// Those of a row map whose permute has not run, because the operator is launched alone: waits for the stream and reads
// the map.
Status find_positions(const Call& call, CudaBuffer& map);

}  // namespace plumbline::real::cuda
