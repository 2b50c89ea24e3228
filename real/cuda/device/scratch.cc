#include "real/cuda/device/scratch.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t smallest = 1 << 20;  // bytes: enough for most operators

// Doubling limits the number of reallocations of a region.
std::int64_t rounded_up(std::int64_t bytes) {
  std::int64_t size = smallest;
  while (size < bytes) size *= 2;
  return size;
}

}  // namespace

// cudaFree waits for the kernels that may still use the old region.
Status Scratch::take(cudaStream_t stream, std::int64_t bytes, void*& data) {
  const auto found = regions_.find(stream);
  if (found == regions_.end() || found->second.bytes() < bytes) {
    if (found != regions_.end()) regions_.erase(found);
    DeviceMemory& region = regions_.try_emplace(stream).first->second;
    if (Status status = region.allocate(rounded_up(bytes)); !status.ok()) {
      regions_.erase(stream);
      return status;
    }
  }
  data = regions_.at(stream).as<void>();
  return {};
}

}  // namespace plumbline::real::cuda
