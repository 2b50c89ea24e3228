// Numbers of the library's types, as FP32.
#pragma once

#include <library_types.h>

#include <cstdint>

namespace plumbline::tests::host_gpu {

// `count` numbers of an array, from the one at `first` on. FP32, BF16, FP16; E4M3 is only read.
void read_numbers(cudaDataType_t type, const void* array, std::int64_t first, std::int64_t count, float* to);
void write_numbers(cudaDataType_t type, const float* from, std::int64_t count, void* array, std::int64_t first);

}  // namespace plumbline::tests::host_gpu
