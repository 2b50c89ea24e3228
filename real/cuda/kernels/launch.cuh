// The only place where kernels are launched, so that tests without a GPU can launch them on the host
// (tests/support/host_gpu/).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace plumbline::real::cuda {

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;  // dynamic: besides what the kernel declares
};

template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), const Grid& grid, cudaStream_t stream,
                   const Arguments&... arguments) {
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, stream>>>(arguments...);
  return cudaGetLastError();
}

// Lets blocks of the kernel use more dynamic shared memory than the default limit.
template <typename... Parameters>
cudaError_t allow_shared(void (*kernel)(Parameters...), int bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

// The block's dynamic shared memory.
template <typename Element>
__device__ Element* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic[];
  return reinterpret_cast<Element*>(dynamic);
}

}  // namespace plumbline::real::cuda
