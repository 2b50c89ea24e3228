// The outcome of something that may fail on a device: a reason, or nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace plumbline::real::cuda {

struct [[nodiscard]] Status {
  std::string failure;  // empty: all went well

  bool ok() const { return failure.empty(); }
};

// `doing` completes "... failed". Clears the runtime's last error, so that the next case starts without it; an error
// that comes back afterwards has broken the context (see context_is_lost).
inline Status outcome(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();
  return {std::string(doing) + " failed: " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error)};
}

// Whether the device no longer answers: after an illegal access every call fails until the process ends.
inline bool context_is_lost() {
  cudaGetLastError();
  return cudaDeviceSynchronize() != cudaSuccess && cudaDeviceSynchronize() != cudaSuccess;
}

}  // namespace plumbline::real::cuda

// Leaves the calling function, which returns Status, when `step` failed.
#define PLUMBLINE_TRY(step)                                                              \
  do {                                                                                   \
    if (::plumbline::real::cuda::Status status_ = (step); !status_.ok()) return status_; \
  } while (false)
