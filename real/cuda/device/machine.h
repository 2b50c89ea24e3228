// One GPU and the libraries that compute on it, as operators use them. Handles and workspaces are made once.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "real/cuda/device/scratch.h"
#include "real/cuda/memory.h"
#include "real/cuda/status.h"
#include "real/cuda/vendor/cublaslt.h"

namespace plumbline::real::cuda {

class Attention;  // cuDNN's plans (real/cuda/operators/cudnn/attention_library.h)
class GemmCache;

struct Machine {
  cudaDeviceProp properties{};
  int ordinal = 0;
  std::vector<std::string> folders;    // searched for libraries
  std::unique_ptr<CublasLt> cublaslt;  // never null on an open machine
  std::unique_ptr<GemmCache> gemms;
  std::unique_ptr<Attention> attention;  // nullptr without cuDNN: plumbline's own kernels compute it
  std::string attention_error;
  Scratch scratch;

  Machine();
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Opens device `ordinal`. The error names cuBLASLt if it is missing, or the device if it does not answer.
  Status open(int ordinal, const std::vector<std::string>& library_folders);
  int sms() const { return properties.multiProcessorCount; }
};

}  // namespace plumbline::real::cuda
