// How kernels of the exchange are launched, in one place: these run on the host as well, where tests have no GPU
// (tests/support/host_gpu/).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace plumbline::real::cuda {

struct Grid {
  unsigned blocks = 1;
  int threads = 1;               // of a block
  std::size_t shared_bytes = 0;  // that a block claims beside what the kernel declares
};

template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), const Grid& grid, cudaStream_t stream,
                   const Arguments&... arguments) {
  kernel<<<grid.blocks, static_cast<unsigned>(grid.threads), grid.shared_bytes, stream>>>(arguments...);
  return cudaGetLastError();
}

// Lets blocks of the kernel claim more than every device has.
template <typename... Parameters>
cudaError_t allow_shared(void (*kernel)(Parameters...), int bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

}  // namespace plumbline::real::cuda
