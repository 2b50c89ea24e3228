// Memory of a GPU that other ranks of its node open: by its address within a process, by the driver's handles between
// processes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/memory.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// What a rank must know of another one's memory to open it; bytes that any channel may carry.
struct MemoryKey {
  std::uint64_t process = 0;  // a number that no other process has
  void* address = nullptr;    // in that process
  int device = 0;             // its number there
  cudaIpcMemHandle_t handle{};
};
Status key_of(const DeviceMemory& memory, MemoryKey& key);

class PeerMemory {
 public:
  PeerMemory() = default;
  ~PeerMemory() { close(); }
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Fails where the device cannot reach the other one.
  Status open(const MemoryKey& key);
  // The owner frees the memory only when all others have closed it.
  void close();
  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
  bool mapped_ = false;
};

}  // namespace plumbline::real::cuda
