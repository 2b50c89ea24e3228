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
  // take(). Kernels of one stream run in order, so an operator calls this once and divides the region.
  Status take(cudaStream_t stream, std::int64_t bytes, void*& data);

 private:
  std::map<cudaStream_t, DeviceMemory> regions_;
};

}  // namespace plumbline::real::cuda
