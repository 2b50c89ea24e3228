#include "real/cuda/kernels/fill.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/threads.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int block_threads = 256;

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
