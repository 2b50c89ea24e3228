// Memory of a GPU that other ranks of its node map: by its address within a process, by CUDA IPC handles between
// processes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/memory.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// What another rank needs to map a piece of memory; plain bytes that any channel can carry.
struct MemoryKey {
  std::uint64_t process = 0;  // a number that is unique to the process
  void* address = nullptr;    // valid in that process
  int device = 0;             // its ordinal there
  cudaIpcMemHandle_t handle{};
};
Status key_of(const DeviceMemory& memory, MemoryKey& key);

class PeerMemory {
 public:
  PeerMemory() = default;
  ~PeerMemory() { close(); }
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Maps the memory. Fails if the device has no peer access to the other one.
  Status open(const MemoryKey& key);
  // Unmaps it. The owner may free the memory only after all others have closed it.
  void close();
  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
  bool mapped_ = false;
};

}  // namespace plumbline::real::cuda
