// Emulated peers: copies of the same sizes as a collective's, by as many CTAs. The values are not those of a training,
// but are similar.
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

// Runs a collective in a group of one rank: out = in.
Status copy_whole(const Kernel& kernel, cudaStream_t stream);

// Moves as many bytes as a ring collective in a larger group: the whole tensor twice (all_reduce), the whole once and
// then a piece (reduce_scatter), or a piece into each place (all_gather). Tensors have one format without scales.
Status stand_in(const Group& group, const Kernel& kernel, const Blocks& blocks, cudaStream_t stream);

// Messages from emulated ranks: random numbers of the magnitude of activations, made once for every shape. With zeros,
// GEMMs would run faster than in training.
class ReceiveBuffers {
 public:
  Status receive(CudaBuffer& buffer, cudaStream_t stream);

 private:
  std::map<std::pair<Format, std::int64_t>, std::unique_ptr<DeviceMemory>> made_;  // by format and bytes
};

}  // namespace plumbline::real::cuda
