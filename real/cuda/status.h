// The outcome of a call that may fail on a device: empty, or the reason.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace plumbline::real::cuda {

struct [[nodiscard]] Status {
  std::string failure;  // empty: success

  bool ok() const { return failure.empty(); }
};

// `doing` completes "... failed". It clears the runtime's last error, so that the next case starts without it. If an
// error returns afterwards, the context is broken (see context_is_lost).
inline Status outcome(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();
  return {std::string(doing) + " failed: " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error)};
}

// Returns whether the device no longer answers: after an illegal access every call fails until the process ends.
inline bool context_is_lost() {
  cudaGetLastError();
  return cudaDeviceSynchronize() != cudaSuccess && cudaDeviceSynchronize() != cudaSuccess;
}

}  // namespace plumbline::real::cuda

// Returns from the calling function, which returns Status, if `step` failed.
#define PLUMBLINE_TRY(step)                                                              \
  do {                                                                                   \
    if (::plumbline::real::cuda::Status status_ = (step); !status_.ok()) return status_; \
  } while (false)
