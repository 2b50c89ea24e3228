// What the parts of the CUDA runtime's stand-in share. The stand-in defines functions of cuda_runtime_api.h for any
// number of devices that are this process's own memory and threads; tests link it where a program links cudart.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace plumbline::tests::host_gpu {

constexpr std::size_t device_bytes = std::size_t{80} << 30;  // that a device says it has

void enqueue(cudaStream_t stream, std::function<void()> work);

// Becomes the thread's last error.
cudaError_t failed(cudaError_t error);

}  // namespace plumbline::tests::host_gpu
