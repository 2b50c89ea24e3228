// Replaces the header of the same name where kernels are compiled for the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "tests/support/host_gpu/grid.h"

namespace plumbline::real::cuda {

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
};

// Arguments are copied when the kernel is launched, as the runtime copies them.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), const Grid& grid, cudaStream_t stream,
                   const Arguments&... arguments) {
  tests::host_gpu::enqueue_grid(stream, {grid.blocks, grid.threads, grid.shared_bytes}, [=] { kernel(arguments...); });
  return cudaSuccess;
}

template <typename... Parameters>
cudaError_t allow_shared(void (* /*kernel*/)(Parameters...), int /*bytes*/) {
  return cudaSuccess;
}

template <typename Element>
Element* dynamic_shared() {
  return static_cast<Element*>(tests::host_gpu::dynamic_memory());
}

}  // namespace plumbline::real::cuda
