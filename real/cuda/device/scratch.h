// Device memory that lasts for one operator: each stream has a region of its own that grows to the largest request and
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
  // `data`: at least that many bytes, aligned to 256, with unknown contents. It is the stream's until its next take():
  // kernels of one stream follow each other, so an operator asks once and divides what it got.
  Status take(cudaStream_t stream, std::int64_t bytes, void*& data);

 private:
  std::map<cudaStream_t, DeviceMemory> regions_;
};

}  // namespace plumbline::real::cuda
