// What every measurement uses of one device: streams, a flush buffer, libraries and properties.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "real/cuda/memory.h"
#include "real/cuda/operators/cudnn/attention_library.h"
#include "real/cuda/vendor/cublaslt.h"
#include "real/cuda/vendor/nvml.h"

namespace plumbline::real::cuda {

struct Toolbox {
  cudaDeviceProp properties{};
  std::string bus_id;
  int largest_dynamic_shared = 0;      // bytes of shared memory that a block may claim
  cudaStream_t stream = nullptr;       // where the measured work runs
  cudaStream_t copy_stream = nullptr;  // where the copy kernel runs, with the highest priority
  cudaStream_t control = nullptr;      // for work that must pass while both are busy
  DeviceMemory flush;                  // larger than the L2 cache, zeros
  DeviceMemory sink;                   // one word
  PinnedMemory cycles;                 // what count_cycles reports
  DeviceMemory workspace;              // of cuBLASLt
  std::unique_ptr<CublasLt> cublaslt;
  std::string cublaslt_error;            // the reason if it is missing
  std::unique_ptr<Attention> attention;  // opened on request; its plans serve all cases
  std::unique_ptr<Nvml> nvml;
  std::string nvml_error;
  std::vector<std::string> folders;  // searched for libraries

  Toolbox() = default;
  ~Toolbox();
  Toolbox(const Toolbox&) = delete;
  Toolbox& operator=(const Toolbox&) = delete;

  // Opens device `ordinal` and runs one kernel on it. Missing libraries are no failure.
  Status open(int ordinal, const std::vector<std::string>& library_folders);
  Status flush_cache(cudaStream_t on) const;
  Status open_attention();
};

}  // namespace plumbline::real::cuda
