#include "real/cuda/device/machine.h"

#include "real/cuda/operators/cudnn/attention_library.h"
#include "real/cuda/operators/gemm_cache.h"

namespace plumbline::real::cuda {

Machine::Machine() = default;
Machine::~Machine() = default;

Status Machine::open(int device, const std::vector<std::string>& library_folders) {
  ordinal = device;
  folders = library_folders;
  PLUMBLINE_TRY(outcome(cudaSetDevice(ordinal), "taking the device"));
  PLUMBLINE_TRY(outcome(cudaGetDeviceProperties(&properties, ordinal), "reading the device's properties"));
  std::string error;
  cublaslt = CublasLt::open(folders, error);
  if (cublaslt == nullptr) return {error};
  gemms = std::make_unique<GemmCache>(*cublaslt);
  attention = open_attention(folders, attention_error);
  return {};
}

}  // namespace plumbline::real::cuda
