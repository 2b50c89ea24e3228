// Launches an attention kernel with the largest tiles that fit in the device's shared memory.
#pragma once

#include "real/cuda/kernels/attention/attention.cuh"
#include "real/cuda/kernels/launch.cuh"

namespace plumbline::real::cuda {

struct TiledKernel {
  void (*kernel)(AttentionTask) = nullptr;
  std::int64_t blocks = 0;
  std::size_t shared_bytes = 0;
};

// Shared memory per block left for what the attention kernels declare statically.
constexpr std::size_t declared_bytes = 1024;

inline cudaError_t launch_tiled(const TiledKernel& large, const TiledKernel& small, const AttentionTask& task,
                                cudaStream_t stream) {
  int device = 0, most = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  const auto fits = [&](const TiledKernel& k) {
    return k.shared_bytes + declared_bytes <= static_cast<std::size_t>(most);
  };
  const TiledKernel& chosen = fits(large) ? large : small;
  if (!fits(chosen)) return cudaErrorInvalidValue;
  if (chosen.blocks == 0) return cudaSuccess;
  error = allow_shared(chosen.kernel, static_cast<int>(chosen.shared_bytes));
  if (error != cudaSuccess) return error;
  const Grid grid{static_cast<unsigned>(chosen.blocks), attention_threads, chosen.shared_bytes};
  return launch(chosen.kernel, grid, stream, task);
}

}  // namespace plumbline::real::cuda
