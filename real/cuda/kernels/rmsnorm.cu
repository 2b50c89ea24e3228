#include "real/cuda/kernels/vector.cuh"

namespace plumbline::real::cuda {

namespace {

// One block per row; the row stays in registers between the sum and the scaling, so it is read once.
template <int kVectors>
__global__ void rmsnorm_kernel(const Bf16* x, const Bf16* gamma, Bf16* y, std::int64_t columns, float epsilon) {
  const Bf16* row = x + blockIdx.x * columns;
  Bf16* out = y + blockIdx.x * columns;
  Bf16x8 held[kVectors];
  float sum = 0.0f;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t column = (static_cast<std::int64_t>(v) * blockDim.x + threadIdx.x) * vector_width;
    if (column < columns) held[v] = load(row + column);
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t column = (static_cast<std::int64_t>(v) * blockDim.x + threadIdx.x) * vector_width;
    if (column >= columns) continue;
#pragma unroll
    for (int i = 0; i < vector_width; ++i) {
      const float value = bf16_to_float(held[v].values[i]);
      sum += value * value;
    }
  }
  const float inverse = rms_inverse(block_sum(sum), columns, epsilon);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t column = (static_cast<std::int64_t>(v) * blockDim.x + threadIdx.x) * vector_width;
    if (column >= columns) continue;
    const Bf16x8 weights = load(gamma + column);
    Bf16x8 result;
#pragma unroll
    for (int i = 0; i < vector_width; ++i) {
      const float value = bf16_to_float(held[v].values[i]);
      result.values[i] = float_to_bf16(value * inverse * bf16_to_float(weights.values[i]));
    }
    store(out + column, result);
  }
}

}  // namespace

cudaError_t rmsnorm(const Bf16* x, const Bf16* gamma, Bf16* y, std::int64_t rows, std::int64_t columns, float epsilon,
                    cudaStream_t stream) {
  const std::int64_t vectors = columns / vector_width;
  const std::int64_t most_threads = 512;
  const std::int64_t whole_warps = (vectors + warp_size - 1) / warp_size * warp_size;
  const auto threads = static_cast<unsigned>(whole_warps < most_threads ? whole_warps : most_threads);
  const auto blocks = static_cast<unsigned>(rows);
  const std::int64_t per_thread = (vectors + threads - 1) / threads;
  if (per_thread <= 1) {
    rmsnorm_kernel<1><<<blocks, threads, 0, stream>>>(x, gamma, y, columns, epsilon);
  } else if (per_thread <= 2) {
    rmsnorm_kernel<2><<<blocks, threads, 0, stream>>>(x, gamma, y, columns, epsilon);
  } else if (per_thread <= 4) {
    rmsnorm_kernel<4><<<blocks, threads, 0, stream>>>(x, gamma, y, columns, epsilon);
  } else if (per_thread <= 8) {
    rmsnorm_kernel<8><<<blocks, threads, 0, stream>>>(x, gamma, y, columns, epsilon);
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace plumbline::real::cuda
