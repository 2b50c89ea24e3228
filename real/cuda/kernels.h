// The probe's own kernels, as plain functions that enqueue one launch on a stream and return what the launch said.
// Pointers are device memory, 16-byte aligned; counts of columns and elements are multiples of 8.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/arithmetic.h"

namespace plumbline::real::cuda {

using Bf16 = std::uint16_t;  // raw bits
using Fp8 = std::uint8_t;

// y = gamma * x / sqrt(mean(x^2) + epsilon), row by row. At most 32768 columns.
cudaError_t rmsnorm(const Bf16* x, const Bf16* gamma, Bf16* y, std::int64_t rows, std::int64_t columns, float epsilon,
                    cudaStream_t stream);

// x holds [gate | up], 2 * columns wide; y = gate * sigmoid(gate) * up.
cudaError_t swiglu(const Bf16* x, Bf16* y, std::int64_t rows, std::int64_t columns, cudaStream_t stream);

// FP8 with a scale per 128 columns, laid out by row_scale_index. Columns are a multiple of 128.
cudaError_t quantise(const Bf16* x, Fp8* y, float* scales, std::int64_t rows, std::int64_t columns,
                     cudaStream_t stream);

// y[row] = x[source[row]].
cudaError_t permute(const Bf16* x, const std::int32_t* source, Bf16* y, std::int64_t rows, std::int64_t columns,
                    cudaStream_t stream);

struct AdamWState {
  const float* gradient = nullptr;
  float* master = nullptr;
  Bf16* first = nullptr;
  Bf16* second = nullptr;
  Bf16* weight = nullptr;
};
cudaError_t adamw(const AdamWState& state, const AdamW& parameters, std::int64_t elements, cudaStream_t stream);

cudaError_t copy(const void* from, void* to, std::int64_t bytes, cudaStream_t stream);

cudaError_t empty(cudaStream_t stream);
// Keeps one SM busy for that long, so that the host can enqueue work behind it.
cudaError_t spin(std::int64_t nanoseconds, cudaStream_t stream);
// Counts the cycles of one SM for that long: report[0] cycles in report[1] nanoseconds.
cudaError_t count_cycles(std::int64_t nanoseconds, std::int64_t* report, cudaStream_t stream);
// Reads all of `buffer`; afterwards the L2 cache holds nothing else. `sink` is one word that is never written.
cudaError_t flush_cache(const void* buffer, std::int64_t bytes, std::uint32_t* sink, cudaStream_t stream);

// Normal numbers times `scale`.
cudaError_t fill_bf16(Bf16* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream);
cudaError_t fill_float(float* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream);
cudaError_t fill_fp8(Fp8* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream);
// Positive numbers, log-uniform between scale / 2 and 2 * scale.
cudaError_t fill_scales(float* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream);
cudaError_t fill_second_moment(Bf16* to, std::int64_t elements, std::uint64_t seed, cudaStream_t stream);

// Adds the number of NaN and infinite elements to *count.
cudaError_t count_not_finite(const Bf16* values, std::int64_t elements, unsigned long long* count, cudaStream_t stream);
cudaError_t count_not_finite(const float* values, std::int64_t elements, unsigned long long* count,
                             cudaStream_t stream);

// The copy kernel that stands for communication: `ctas` blocks, each alone on its SM because it claims all shared
// memory of it. They copy `from` to `to` over and over until *stop is set or the deadline passes.
struct Occupation {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t bytes = 0;                // a multiple of 16 * ctas
  std::int64_t nanoseconds_per_mib = 0;  // pace of one CTA; 0: as fast as it goes, negative: it only holds its SM
  std::int64_t deadline = 0;             // nanoseconds from each block's start, after which it ends by itself
  const volatile int* stop = nullptr;    // device memory, set from another stream
  volatile int* started = nullptr;       // pinned host memory: entry b is set once block b runs
  std::int64_t* report = nullptr;        // per block: bytes copied, nanoseconds, SM id
};
constexpr int occupation_report_entries = 3;
// `shared_bytes` is the most a block may claim on this device (cudaDevAttrMaxSharedMemoryPerBlockOptin).
cudaError_t occupy(const Occupation& occupation, int ctas, int shared_bytes, cudaStream_t stream);

}  // namespace plumbline::real::cuda
