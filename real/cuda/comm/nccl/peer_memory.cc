#include "real/cuda/comm/nccl/peer_memory.h"

#include <random>

namespace plumbline::real::cuda {
namespace {

// Process numbers of the system may be equal, because containers number their processes from 1.
std::uint64_t this_process() {
  static const std::uint64_t key = [] {
    std::random_device source;
    return std::uint64_t{source()} << 32 | source();
  }();
  return key;
}

Status reach(int device) {
  int own = 0;
  PLUMBLINE_TRY(outcome(cudaGetDevice(&own), "asking for the device"));
  if (own == device) return {};
  const cudaError_t error = cudaDeviceEnablePeerAccess(device, 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled) return outcome(error, "reaching another GPU's memory");
  cudaGetLastError();
  return {};
}

}  // namespace

Status key_of(const DeviceMemory& memory, MemoryKey& key) {
  key.process = this_process();
  key.address = memory.as<void>();
  PLUMBLINE_TRY(outcome(cudaGetDevice(&key.device), "asking for the device"));
  return outcome(cudaIpcGetMemHandle(&key.handle, key.address), "sharing memory with other processes");
}

Status PeerMemory::open(const MemoryKey& key) {
  close();
  if (key.process == this_process()) {
    PLUMBLINE_TRY(reach(key.device));
    data_ = key.address;
    return {};
  }
  const cudaError_t error = cudaIpcOpenMemHandle(&data_, key.handle, cudaIpcMemLazyEnablePeerAccess);
  mapped_ = error == cudaSuccess;
  if (!mapped_) data_ = nullptr;
  return outcome(error, "opening another process's memory");
}

void PeerMemory::close() {
  if (mapped_) cudaIpcCloseMemHandle(data_);
  data_ = nullptr;
  mapped_ = false;
}

}  // namespace plumbline::real::cuda
