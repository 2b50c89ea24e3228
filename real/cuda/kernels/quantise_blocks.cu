#include "real/cuda/kernels/quantise_blocks.h"
#include "real/cuda/kernels/vector.cuh"

namespace plumbline::real::cuda {

namespace {

constexpr int block_threads = 256;
constexpr int across = static_cast<int>(scale_tile) / vector_width;  // threads along a row of the block
constexpr int down = block_threads / across;                         // rows at a time
constexpr int passes = static_cast<int>(scale_tile) / down;

__device__ float largest_of_block(float largest) {
  __shared__ float of_warps[block_threads / warp_size];
  for (int offset = warp_size / 2; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
  if (threadIdx.x % warp_size == 0) of_warps[threadIdx.x / warp_size] = largest;
  __syncthreads();
  for (const float of_warp : of_warps) largest = fmaxf(largest, of_warp);
  return largest;
}

// One CTA per scale; its values wait in registers until the scale is known.
__global__ void __launch_bounds__(block_threads) quantise_kernel(TensorView x, TensorView y) {
  const std::int64_t column = blockIdx.x * scale_tile + threadIdx.x % across * vector_width;
  const std::int64_t first = blockIdx.y * scale_tile + threadIdx.x / across;
  const auto element = [&](int pass) {
    return (blockIdx.z * y.matrix_rows + first + pass * down) * y.columns + column;
  };
  const auto is_inside = [&](int pass) { return column < y.columns && first + pass * down < y.matrix_rows; };
  Bf16x8 held[passes] = {};
  float largest = 0.0f;
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    if (!is_inside(pass)) continue;
    held[pass] = load(static_cast<const Bf16*>(x.data) + element(pass));
    for (const Bf16 value : held[pass].values) largest = fmaxf(largest, fabsf(bf16_to_float(value)));
  }
  const float scale = block_scale(largest_of_block(largest));
  if (threadIdx.x == 0) y.scales[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = scale;
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    if (!is_inside(pass)) continue;
    std::uint8_t codes[vector_width];
    for (int i = 0; i < vector_width; ++i) codes[i] = float_to_fp8(bf16_to_float(held[pass].values[i]) / scale);
    uint2 raw;
    memcpy(&raw, codes, sizeof raw);
    *reinterpret_cast<uint2*>(static_cast<Fp8*>(y.data) + element(pass)) = raw;
  }
}

}  // namespace

cudaError_t quantise_blocks(const TensorView& x, const TensorView& y, cudaStream_t stream) {
  if (y.elements() == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(tiles_of(y.columns)), static_cast<unsigned>(tiles_of(y.matrix_rows)),
                  static_cast<unsigned>(y.rows / y.matrix_rows));
  quantise_kernel<<<grid, block_threads, 0, stream>>>(x, y);
  return cudaGetLastError();
}

}  // namespace plumbline::real::cuda
