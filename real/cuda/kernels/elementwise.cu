// SwiGLU, the optimizer, the permutation and the plain copy: streams of 16-byte accesses.
#include "real/cuda/kernels/vector.cuh"

namespace plumbline::real::cuda {

namespace {

constexpr int block_threads = 256;

__global__ void swiglu_kernel(const Bf16* x, Bf16* y, std::int64_t columns) {
  const Bf16* gate = x + static_cast<std::int64_t>(blockIdx.x) * 2 * columns;
  Bf16* out = y + static_cast<std::int64_t>(blockIdx.x) * columns;
  for (std::int64_t column = threadIdx.x * vector_width; column < columns; column += blockDim.x * vector_width) {
    const Bf16x8 g = load(gate + column);
    const Bf16x8 u = load(gate + columns + column);
    Bf16x8 result;
#pragma unroll
    for (int i = 0; i < vector_width; ++i) {
      result.values[i] = float_to_bf16(swiglu(bf16_to_float(g.values[i]), bf16_to_float(u.values[i])));
    }
    store(out + column, result);
  }
}

__global__ void permute_kernel(const Bf16* x, const std::int32_t* source, Bf16* y, std::int64_t columns) {
  const Bf16* from = x + static_cast<std::int64_t>(source[blockIdx.x]) * columns;
  Bf16* to = y + static_cast<std::int64_t>(blockIdx.x) * columns;
  for (std::int64_t column = threadIdx.x * vector_width; column < columns; column += blockDim.x * vector_width) {
    store(to + column, load(from + column));
  }
}

struct alignas(16) Float4 {
  float values[4];
};

// Eight elements per thread: two vectors of FP32, one of each BF16 array.
__global__ void adamw_kernel(AdamWState state, AdamW parameters, std::int64_t vectors) {
  for (std::int64_t vector = thread_index(); vector < vectors; vector += thread_count()) {
    const std::int64_t at = vector * vector_width;
    Float4 gradient[2], master[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      gradient[half] = *reinterpret_cast<const Float4*>(state.gradient + at + half * 4);
      master[half] = *reinterpret_cast<const Float4*>(state.master + at + half * 4);
    }
    Bf16x8 first = load(state.first + at);
    Bf16x8 second = load(state.second + at);
    Bf16x8 weight;
#pragma unroll
    for (int i = 0; i < vector_width; ++i) {
      float m = bf16_to_float(first.values[i]);
      float v = bf16_to_float(second.values[i]);
      float& w = master[i / 4].values[i % 4];
      w = adamw(parameters, w, gradient[i / 4].values[i % 4], m, v);
      first.values[i] = float_to_bf16(m);
      second.values[i] = float_to_bf16(v);
      weight.values[i] = float_to_bf16(w);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      *reinterpret_cast<Float4*>(state.master + at + half * 4) = master[half];
    }
    store(state.first + at, first);
    store(state.second + at, second);
    store(state.weight + at, weight);
  }
}

// Four loads in flight before the first store.
__global__ void copy_kernel(const uint4* from, uint4* to, std::int64_t vectors) {
  constexpr int in_flight = 4;
  const std::int64_t stride = thread_count();
  for (std::int64_t start = thread_index(); start < vectors; start += stride * in_flight) {
    uint4 held[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      if (start + i * stride < vectors) held[i] = from[start + i * stride];
    }
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      if (start + i * stride < vectors) to[start + i * stride] = held[i];
    }
  }
}

}  // namespace

cudaError_t swiglu(const Bf16* x, Bf16* y, std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  swiglu_kernel<<<static_cast<unsigned>(rows), block_threads, 0, stream>>>(x, y, columns);
  return cudaGetLastError();
}

cudaError_t permute(const Bf16* x, const std::int32_t* source, Bf16* y, std::int64_t rows, std::int64_t columns,
                    cudaStream_t stream) {
  permute_kernel<<<static_cast<unsigned>(rows), block_threads, 0, stream>>>(x, source, y, columns);
  return cudaGetLastError();
}

cudaError_t adamw(const AdamWState& state, const AdamW& parameters, std::int64_t elements, cudaStream_t stream) {
  const std::int64_t vectors = elements / vector_width;
  adamw_kernel<<<grid_for(vectors, block_threads), block_threads, 0, stream>>>(state, parameters, vectors);
  return cudaGetLastError();
}

cudaError_t copy(const void* from, void* to, std::int64_t bytes, cudaStream_t stream) {
  const std::int64_t vectors = bytes / 16;
  const unsigned blocks = grid_for((vectors + 3) / 4, block_threads);
  copy_kernel<<<blocks, block_threads, 0, stream>>>(static_cast<const uint4*>(from), static_cast<uint4*>(to), vectors);
  return cudaGetLastError();
}

}  // namespace plumbline::real::cuda
