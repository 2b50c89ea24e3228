#include "real/cuda/kernels/cast.h"
#include "real/cuda/kernels/elementwise.cuh"
#include "real/cuda/kernels/launch.cuh"

namespace plumbline::real::cuda {
namespace {

template <class From, class To>
struct Cast {
  TensorView x, y;
  __device__ void operator()(std::int64_t row, std::int64_t column) const {
    store_vec8(To(y), row, column, load_vec8(From(x), row, column));
  }
};

// Magnitudes have the order of their bits, so that the largest does not depend on the order of blocks.
struct FindLargest {
  TensorView x;
  std::uint32_t* largest;
  __device__ void operator()(std::int64_t row, std::int64_t column) const {
    const float of_tile = tile_largest(load_vec8(x, row, column));
    if (threadIdx.x % tile_lanes == 0) atomicMax(largest, bits_of(of_tile));
  }
};

__global__ void scale_of_largest(float* scale) { *scale = block_scale(*scale); }

template <Format kFrom, Format kTo>
bool try_cast(const TensorView& x, const TensorView& y, cudaStream_t stream, cudaError_t& error) {
  if (!is_aligned(x, kFrom) || !is_aligned(y, kTo)) return false;
  error = launch_tiles(y, Cast<Aligned<kFrom>, Aligned<kTo>>{x, y}, stream);
  return true;
}

// Format pairs of training have their own kernels.
cudaError_t cast_rows(const TensorView& x, const TensorView& y, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  if (try_cast<Format::bf16, Format::fp8_tile>(x, y, stream, error)) return error;
  if (try_cast<Format::fp8_tile, Format::bf16>(x, y, stream, error)) return error;
  if (try_cast<Format::bf16, Format::e5m6>(x, y, stream, error)) return error;
  if (try_cast<Format::e5m6, Format::bf16>(x, y, stream, error)) return error;
  if (try_cast<Format::fp32, Format::bf16>(x, y, stream, error)) return error;
  if (try_cast<Format::bf16, Format::fp32>(x, y, stream, error)) return error;
  return launch_tiles(y, Cast<TensorView, TensorView>{x, y}, stream);
}

}  // namespace

cudaError_t find_scale(const TensorView& x, const TensorView& y, cudaStream_t stream) {
  const cudaError_t error = cudaMemsetAsync(y.scales, 0, sizeof(float), stream);
  if (error != cudaSuccess) return error;
  const TensorView source = flat(x);
  const FindLargest find{source, reinterpret_cast<std::uint32_t*>(y.scales)};
  if (const cudaError_t launched = launch_tiles(source, find, stream); launched != cudaSuccess) return launched;
  return launch(scale_of_largest, {1, 1}, stream, y.scales);
}

cudaError_t cast(const TensorView& x, const TensorView& y, cudaStream_t stream) {
  if (y.format == Format::fp8_block) return cast_blocks(x, y, stream);
  if (y.format == Format::fp8_tensor) {
    if (const cudaError_t error = find_scale(x, y, stream); error != cudaSuccess) return error;
  }
  return all_flat(x, y) ? cast_rows(flat(x), flat(y), stream) : cast_rows(x, y, stream);
}

}  // namespace plumbline::real::cuda
