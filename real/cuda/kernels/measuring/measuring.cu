#include "real/cuda/kernels/clock.cuh"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/kernels/threads.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int block_threads = 256;

// Four loads are in flight before the first store.
__global__ void copy_kernel(const uint4* from, uint4* to, std::int64_t vectors) {
  constexpr int in_flight = 4;
  const std::int64_t stride = thread_count();
  for (std::int64_t start = thread_index(); start < vectors; start += stride * in_flight) {
    uint4 held[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i)
      if (start + i * stride < vectors) held[i] = from[start + i * stride];
#pragma unroll
    for (int i = 0; i < in_flight; ++i)
      if (start + i * stride < vectors) to[start + i * stride] = held[i];
  }
}

__global__ void empty_kernel() {}

__global__ void spin_kernel(std::int64_t duration) {
  const std::int64_t start = nanoseconds();
  while (nanoseconds() - start < duration) rest(200);
}

__global__ void count_cycles_kernel(std::int64_t duration, std::int64_t* report) {
  const std::int64_t start = nanoseconds(), first = clock64();
  std::int64_t passed = 0;
  while (passed < duration) passed = nanoseconds() - start;
  report[0] = clock64() - first;
  report[1] = passed;
}

__global__ void flush_kernel(const uint4* buffer, std::int64_t vectors, std::uint32_t* sink) {
  std::uint32_t mixed = 0;
  for (std::int64_t i = thread_index(); i < vectors; i += thread_count()) {
    const uint4 value = buffer[i];
    mixed |= value.x ^ value.y ^ value.z ^ value.w;
  }
  // The compiler cannot remove the reads: the buffer holds zeros, but only at run time.
  if (mixed != 0) *sink = mixed;
}

struct NormalBf16 {
  std::uint64_t seed;
  float scale;
  __device__ Bf16 operator()(std::uint64_t index) const { return float_to_bf16(random_normal(seed, index) * scale); }
};
struct NormalFloat {
  std::uint64_t seed;
  float scale;
  __device__ float operator()(std::uint64_t index) const { return random_normal(seed, index) * scale; }
};
struct NormalFp8 {
  std::uint64_t seed;
  float scale;
  __device__ Fp8 operator()(std::uint64_t index) const { return float_to_fp8(random_normal(seed, index) * scale); }
};
struct LogUniform {
  std::uint64_t seed;
  float scale;
  __device__ float operator()(std::uint64_t index) const {
    const float uniform = static_cast<float>(random_bits(seed, index) >> 40) * (1.0f / 16777216.0f);
    return scale * exp2f(2.0f * uniform - 1.0f);
  }
};
struct SquareBf16 {
  std::uint64_t seed;
  __device__ Bf16 operator()(std::uint64_t index) const {
    const float value = random_normal(seed, index);
    return float_to_bf16(value * value);
  }
};

template <typename Element, typename Draw>
__global__ void fill_kernel(Element* to, std::int64_t elements, Draw draw) {
  for (std::int64_t i = thread_index(); i < elements; i += thread_count()) to[i] = draw(static_cast<std::uint64_t>(i));
}

template <typename Element, typename Draw>
cudaError_t fill(Element* to, std::int64_t elements, Draw draw, cudaStream_t stream) {
  return launch(fill_kernel<Element, Draw>, {grid_for(elements, block_threads), block_threads}, stream, to, elements,
                draw);
}

__device__ inline bool not_finite(Bf16 value) { return (value & 0x7f80u) == 0x7f80u; }
__device__ inline bool not_finite(float value) { return (bits_of(value) & 0x7f800000u) == 0x7f800000u; }

template <typename Element>
__global__ void count_kernel(const Element* values, std::int64_t elements, unsigned long long* count) {
  unsigned long long found = 0;
  for (std::int64_t i = thread_index(); i < elements; i += thread_count()) found += not_finite(values[i]) ? 1u : 0u;
  if (found > 0) atomicAdd(count, found);
}

template <typename Element>
cudaError_t count(const Element* values, std::int64_t elements, unsigned long long* result, cudaStream_t stream) {
  return launch(count_kernel<Element>, {grid_for(elements, block_threads), block_threads}, stream, values, elements,
                result);
}

}  // namespace

cudaError_t copy(const void* from, void* to, std::int64_t bytes, cudaStream_t stream) {
  const std::int64_t vectors = bytes / 16;
  const unsigned blocks = grid_for((vectors + 3) / 4, block_threads);
  return launch(copy_kernel, {blocks, block_threads}, stream, static_cast<const uint4*>(from), static_cast<uint4*>(to),
                vectors);
}

cudaError_t empty(cudaStream_t stream) { return launch(empty_kernel, {1, 32}, stream); }

cudaError_t spin(std::int64_t duration, cudaStream_t stream) { return launch(spin_kernel, {1, 1}, stream, duration); }

cudaError_t count_cycles(std::int64_t duration, std::int64_t* report, cudaStream_t stream) {
  return launch(count_cycles_kernel, {1, 1}, stream, duration, report);
}

cudaError_t flush_cache(const void* buffer, std::int64_t bytes, std::uint32_t* sink, cudaStream_t stream) {
  const std::int64_t vectors = bytes / 16;
  return launch(flush_kernel, {grid_for(vectors, block_threads, 2048), block_threads}, stream,
                static_cast<const uint4*>(buffer), vectors, sink);
}

cudaError_t fill_bf16(Bf16* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream) {
  return fill(to, elements, NormalBf16{seed, scale}, stream);
}
cudaError_t fill_float(float* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream) {
  return fill(to, elements, NormalFloat{seed, scale}, stream);
}
cudaError_t fill_fp8(Fp8* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream) {
  return fill(to, elements, NormalFp8{seed, scale}, stream);
}
cudaError_t fill_scales(float* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream) {
  return fill(to, elements, LogUniform{seed, scale}, stream);
}
cudaError_t fill_second_moment(Bf16* to, std::int64_t elements, std::uint64_t seed, cudaStream_t stream) {
  return fill(to, elements, SquareBf16{seed}, stream);
}

cudaError_t count_not_finite(const Bf16* values, std::int64_t elements, unsigned long long* result,
                             cudaStream_t stream) {
  return count(values, elements, result, stream);
}
cudaError_t count_not_finite(const float* values, std::int64_t elements, unsigned long long* result,
                             cudaStream_t stream) {
  return count(values, elements, result, stream);
}

}  // namespace plumbline::real::cuda
