// What other ranks would do to a rank's memory, when there are none: copies of the same sizes, by as many blocks as a
// collective takes. The values are not those of a training, but of their kind.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "real/cuda/device/buffer.h"
#include "real/cuda/kernels/exchange.h"
#include "real/cuda/memory.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// As a ring moves it: all of the tensor twice, the whole once and then a piece, a piece into each place. `in` and `out`
// are of one format without scales.
Status stand_in_all_reduce(const CudaBuffer& in, CudaBuffer& out, const Blocks& blocks, cudaStream_t stream);
Status stand_in_reduce_scatter(const CudaBuffer& in, CudaBuffer& out, std::int32_t position, const Blocks& blocks,
                               cudaStream_t stream);
Status stand_in_all_gather(const CudaBuffer& in, CudaBuffer& out, std::int32_t ranks, const Blocks& blocks,
                           cudaStream_t stream);

// Copies within a group of one rank: out = in.
Status copy_whole(const CudaBuffer& in, CudaBuffer& out, cudaStream_t stream);

// Messages from ranks that do not exist: random numbers of the size that activations have, made once for every shape.
// Zeros would let products run faster than they do in training.
class Arrivals {
 public:
  Status receive(CudaBuffer& buffer, cudaStream_t stream);

 private:
  std::map<std::pair<Format, std::int64_t>, std::unique_ptr<DeviceMemory>> made_;  // by format and bytes
};

}  // namespace plumbline::real::cuda
