// Random data, and a count of values that are not finite, for any number of elements.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

// Writes normal numbers times `scale`.
cudaError_t fill_bf16(Bf16* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream);
cudaError_t fill_float(float* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream);
cudaError_t fill_fp8(Fp8* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream);
// Writes positive numbers, log-uniform between scale / 2 and 2 * scale.
cudaError_t fill_scales(float* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream);
cudaError_t fill_second_moment(Bf16* to, std::int64_t elements, std::uint64_t seed, cudaStream_t stream);

// Adds the number of NaN and infinite elements to *count.
cudaError_t count_not_finite(const Bf16* values, std::int64_t elements, unsigned long long* count, cudaStream_t stream);
cudaError_t count_not_finite(const float* values, std::int64_t elements, unsigned long long* count,
                             cudaStream_t stream);

}  // namespace plumbline::real::cuda
