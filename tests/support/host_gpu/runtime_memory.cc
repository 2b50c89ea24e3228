// The runtime's memory. New and freed memory is filled with invalid numbers, so that reading it shows in results.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "tests/support/host_gpu/runtime.h"
#include "tests/support/host_gpu/stream.h"

namespace plumbline::tests::host_gpu {
namespace {

constexpr std::size_t alignment = 256;
constexpr int poison_byte = 0xff;  // -1 as an integer, NaN as a number

struct Allocation {
  std::size_t bytes = 0;
  int device = 0;
};

class Allocations {
 public:
  static Allocations& all() {
    static Allocations allocations;
    return allocations;
  }
  void* add(std::size_t bytes) {
    const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
    if (whole > device_bytes) return nullptr;
    void* data = std::aligned_alloc(alignment, whole);
    if (data == nullptr) return nullptr;
    std::memset(data, poison_byte, whole);
    const std::scoped_lock lock(mutex_);
    known_[data] = {bytes, current_device()};
    return data;
  }
  std::optional<Allocation> find(void* data) {
    const std::scoped_lock lock(mutex_);
    const auto found = known_.find(data);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }
  void remove(void* data) {
    const std::scoped_lock lock(mutex_);
    const auto found = known_.find(data);
    std::memset(data, poison_byte, found->second.bytes);
    known_.erase(found);
    std::free(data);
  }

 private:
  std::mutex mutex_;
  std::map<void*, Allocation> known_;
};

cudaError_t allocate(void** data, std::size_t bytes) {
  *data = Allocations::all().add(bytes);
  return *data == nullptr ? failed(cudaErrorMemoryAllocation) : cudaSuccess;
}

// Waits for the device first, as the runtime does.
cudaError_t release(void* data) {
  if (data == nullptr) return cudaSuccess;
  const std::optional<Allocation> known = Allocations::all().find(data);
  if (!known) give_up("memory is freed that is not allocated");
  synchronize_device(known->device);
  Allocations::all().remove(data);
  return cudaSuccess;
}

}  // namespace

}  // namespace plumbline::tests::host_gpu

using namespace plumbline::tests::host_gpu;

extern "C" {

cudaError_t cudaMalloc(void** data, size_t bytes) { return allocate(data, bytes); }
cudaError_t cudaFree(void* data) { return release(data); }
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned int /*flags*/) { return allocate(data, bytes); }
cudaError_t cudaFreeHost(void* data) { return release(data); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = device_bytes;
  return cudaSuccess;
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  for (std::size_t row = 0; row < height; ++row)
    cudaMemcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width, kind);
  return cudaSuccess;
}

// A handle holds the pointer, because all devices are in one process.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* data) {
  if (!Allocations::all().find(data)) return failed(cudaErrorInvalidValue);
  *handle = {};
  std::memcpy(handle, &data, sizeof data);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t handle, unsigned int flags) {
  std::memcpy(data, &handle, sizeof *data);
  const bool known = flags == cudaIpcMemLazyEnablePeerAccess && Allocations::all().find(*data);
  return known ? cudaSuccess : failed(cudaErrorInvalidValue);
}

cudaError_t cudaIpcCloseMemHandle(void* /*data*/) { return cudaSuccess; }

}  // extern "C"
