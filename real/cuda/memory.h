// Memory that frees itself: on the device, and pinned on the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>

#include "real/cuda/status.h"

namespace plumbline::real::cuda {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Allocates memory aligned to 256 bytes. The old memory is freed first, which waits for the device. If memory is
  // short, the failure has the bytes requested and the bytes free.
  Status allocate(std::int64_t bytes) {
    cudaFree(data_);
    data_ = nullptr;
    bytes_ = 0;
    const cudaError_t error = cudaMalloc(&data_, static_cast<std::size_t>(bytes > 0 ? bytes : 1));
    bytes_ = error == cudaSuccess ? bytes : 0;
    if (error != cudaErrorMemoryAllocation) return outcome(error, "allocating device memory");
    data_ = nullptr;
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    char reason[128];
    std::snprintf(reason, sizeof reason, "too little memory: %.2f GB wanted, %.2f of %.2f GB free",
                  static_cast<double>(bytes) * 1e-9, static_cast<double>(free) * 1e-9,
                  static_cast<double>(total) * 1e-9);
    return {reason};
  }
  // Sets all bytes, on the stream.
  Status set(int byte, cudaStream_t stream, const char* doing) const {
    return outcome(cudaMemsetAsync(data_, byte, static_cast<std::size_t>(bytes_), stream), doing);
  }
  template <typename Element>
  Element* as() const {
    return static_cast<Element*>(data_);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

class PinnedMemory {
 public:
  PinnedMemory() = default;
  ~PinnedMemory() { cudaFreeHost(data_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // Allocates pinned memory; the old memory is freed first.
  Status allocate(std::int64_t bytes) {
    cudaFreeHost(data_);
    data_ = nullptr;
    return outcome(cudaHostAlloc(&data_, static_cast<std::size_t>(bytes), cudaHostAllocMapped), "pinning host memory");
  }
  template <typename Element>
  Element* as() const {
    return static_cast<Element*>(data_);
  }

 private:
  void* data_ = nullptr;
};

}  // namespace plumbline::real::cuda
