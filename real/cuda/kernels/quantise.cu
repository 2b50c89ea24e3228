#include <cuda_fp8.h>

#include "real/cuda/kernels/vector.cuh"

namespace plumbline::real::cuda {

namespace {

constexpr int block_threads = 256;
constexpr int lanes = scale_block / vector_width;  // 16 threads share a scale

// The conversion instruction where there is one (compute capability 8.9); arithmetic.h says what it must give.
__device__ inline std::uint16_t two_fp8(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E4M3);
}

// Half a warp per 128 columns. Neighbouring half warps take neighbouring blocks of a row, so that reads coalesce.
__global__ void quantise_kernel(const Bf16* x, Fp8* y, float* scales, std::int64_t rows, std::int64_t blocks_per_row) {
  const std::int64_t group = thread_index() / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const bool active = group < rows * blocks_per_row;  // the whole warp stays for the shuffles
  const std::int64_t at = group * scale_block + lane * vector_width;
  Bf16x8 held{};
  if (active) held = load(x + at);
  float values[vector_width];
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < vector_width; ++i) {
    values[i] = bf16_to_float(held.values[i]);
    largest = fmaxf(largest, fabsf(values[i]));
  }
#pragma unroll
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
  }
  if (!active) return;
  const float scale = block_scale(largest);
  std::uint16_t pairs[vector_width / 2];
#pragma unroll
  for (int i = 0; i < vector_width / 2; ++i) pairs[i] = two_fp8(values[2 * i] / scale, values[2 * i + 1] / scale);
  uint2 raw;
  memcpy(&raw, pairs, sizeof raw);
  *reinterpret_cast<uint2*>(y + at) = raw;
  if (lane == 0) scales[row_scale_index(group / blocks_per_row, group % blocks_per_row, rows)] = scale;
}

}  // namespace

cudaError_t quantise(const Bf16* x, Fp8* y, float* scales, std::int64_t rows, std::int64_t columns,
                     cudaStream_t stream) {
  const std::int64_t blocks_per_row = columns / scale_block;
  const std::int64_t threads = rows * blocks_per_row * lanes;
  const unsigned grid = grid_for(threads, block_threads, 0x7fffffff);
  quantise_kernel<<<grid, block_threads, 0, stream>>>(x, y, scales, rows, blocks_per_row);
  return cudaGetLastError();
}

}  // namespace plumbline::real::cuda
