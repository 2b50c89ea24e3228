// Communicators of the stand-in for NCCL.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <memory>

#include "tests/support/host_gpu/nccl/world.h"

namespace plumbline::tests::host_gpu {

// A rank's end of a communicator. Work on a stream keeps it alive.
struct End {
  std::shared_ptr<World> world;
  World::Member member;
  int device = 0;
  cudaStream_t stream = nullptr;  // the stream of all its calls
  std::atomic<ncclResult_t> error = ncclSuccess;
};

ncclUniqueId next_id();
// Joins a communicator and returns before all ranks have joined.
std::shared_ptr<End> join(const ncclUniqueId& id, int ranks, int rank);
void leave(const std::shared_ptr<End>& end);
// Makes communicators of the device report that another rank is lost.
void lose_peer_of(int device);

}  // namespace plumbline::tests::host_gpu
