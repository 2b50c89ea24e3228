// Communicators as the stand-in for NCCL holds them.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <memory>

#include "tests/support/host_gpu/nccl/world.h"

namespace plumbline::tests::host_gpu {

// A rank's end of a communicator. What stands on a stream keeps it alive.
struct End {
  std::shared_ptr<World> world;
  World::Member member;
  int device = 0;
  cudaStream_t stream = nullptr;  // of all its calls
  std::atomic<ncclResult_t> error = ncclSuccess;
};

ncclUniqueId next_id();
// Returns before all ranks have come.
std::shared_ptr<End> join(const ncclUniqueId& id, int ranks, int rank);
void leave(const std::shared_ptr<End>& end);
// Communicators of the device have lost another rank.
void lose_peer_of(int device);

}  // namespace plumbline::tests::host_gpu
