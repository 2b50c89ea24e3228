// Device memory that lasts for one operator. Each stream has its own region, which grows to the largest request and
// stays, so that launches allocate nothing once all operators have run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>

#include "real/cuda/memory.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

class Scratch {
 public:
  // Returns at least that many bytes in `data`, aligned to 256, with unknown contents, valid until the stream's next
  // take(). Kernels of one stream run in order, so an operator calls this once and divides the region. cudaFree waits
  // for the kernels that may still use the old one.
  Status take(cudaStream_t stream, std::int64_t bytes, void*& data) {
    const auto found = regions_.find(stream);
    if (found == regions_.end() || found->second.bytes() < bytes) {
      if (found != regions_.end()) regions_.erase(found);
      std::int64_t size = smallest;
      while (size < bytes) size *= 2;  // limits the number of reallocations
      DeviceMemory& region = regions_.try_emplace(stream).first->second;
      if (Status status = region.allocate(size); !status.ok()) {
        regions_.erase(stream);
        return status;
      }
    }
    data = regions_.at(stream).as<void>();
    return {};
  }

 private:
  static constexpr std::int64_t smallest = 1 << 20;  // bytes: enough for most operators

  std::map<cudaStream_t, DeviceMemory> regions_;
};

}  // namespace plumbline::real::cuda
