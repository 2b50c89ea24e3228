// What other ranks would do to a rank's memory, when there are none: copies of the same sizes, by as many blocks as a
// collective takes. The values are not those of a training, but of their kind.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "real/cuda/device/buffer.h"
#include "real/cuda/kernels/all_to_all/all_to_all.h"
#include "real/cuda/memory.h"
#include "real/cuda/status.h"
#include "real/executor/communicator.h"

namespace plumbline::real::cuda {

// A collective within a group of one rank: out = in.
Status copy_whole(const Kernel& kernel, cudaStream_t stream);

// A collective within a larger group, as a ring moves it: all of the tensor twice (all_reduce), the whole once and then
// a piece (reduce_scatter), a piece into each place (all_gather). Tensors are of one format without scales.
Status stand_in(const Group& group, const Kernel& kernel, const Blocks& blocks, cudaStream_t stream);

// Messages from ranks that do not exist: random numbers of the size that activations have, made once for every shape.
// Zeros would let products run faster than they do in training.
class ReceiveBuffers {
 public:
  Status receive(CudaBuffer& buffer, cudaStream_t stream);

 private:
  std::map<std::pair<Format, std::int64_t>, std::unique_ptr<DeviceMemory>> made_;  // by format and bytes
};

}  // namespace plumbline::real::cuda
