// Reads and writes the library's number types as FP32.
#pragma once

#include <library_types.h>

#include <cstdint>

namespace plumbline::tests::host_gpu {

// Reads `count` numbers of an array, from the one at `first` on. Types are FP32, BF16, FP16, and E4M3 for reading only.
void read_numbers(cudaDataType_t type, const void* array, std::int64_t first, std::int64_t count, float* to);
void write_numbers(cudaDataType_t type, const float* from, std::int64_t count, void* array, std::int64_t first);

}  // namespace plumbline::tests::host_gpu
