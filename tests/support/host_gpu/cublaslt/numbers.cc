#include "tests/support/host_gpu/cublaslt/numbers.h"

#include <algorithm>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::tests::host_gpu {
namespace {

template <typename Stored, typename Load>
void read(const void* array, std::int64_t first, std::int64_t count, float* to, Load load) {
  const Stored* const from = static_cast<const Stored*>(array) + first;
  std::transform(from, from + count, to, load);
}

template <typename Stored, typename Store>
void write(const float* from, std::int64_t count, void* array, std::int64_t first, Store store) {
  std::transform(from, from + count, static_cast<Stored*>(array) + first, store);
}

float same(float value) { return value; }

}  // namespace

void read_numbers(cudaDataType_t type, const void* array, std::int64_t first, std::int64_t count, float* to) {
  if (type == CUDA_R_32F) read<float>(array, first, count, to, same);
  if (type == CUDA_R_16BF) read<std::uint16_t>(array, first, count, to, real::cuda::bf16_to_float);
  if (type == CUDA_R_16F) read<std::uint16_t>(array, first, count, to, real::cuda::fp16_to_float);
  if (type == CUDA_R_8F_E4M3) read<std::uint8_t>(array, first, count, to, real::cuda::fp8_to_float);
}

void write_numbers(cudaDataType_t type, const float* from, std::int64_t count, void* array, std::int64_t first) {
  if (type == CUDA_R_32F) write<float>(from, count, array, first, same);
  if (type == CUDA_R_16BF) write<std::uint16_t>(from, count, array, first, real::cuda::float_to_bf16);
  if (type == CUDA_R_16F) write<std::uint16_t>(from, count, array, first, real::cuda::float_to_fp16);
}

}  // namespace plumbline::tests::host_gpu
