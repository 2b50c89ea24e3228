// Shared by the parts of the CUDA runtime's stand-in, which defines functions of cuda_runtime_api.h for any number of
// devices. Their memory and threads are those of this process. Tests link it in place of cudart.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace plumbline::tests::host_gpu {

constexpr std::size_t device_bytes = std::size_t{80} << 30;  // reported memory of a device

void enqueue(cudaStream_t stream, std::function<void()> work);

// Stores the error as the thread's last one and returns it.
cudaError_t failed(cudaError_t error);

}  // namespace plumbline::tests::host_gpu
