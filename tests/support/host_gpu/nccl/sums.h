// Numbers of NCCL's types, added.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace plumbline::tests::host_gpu {

using Bytes = std::vector<char>;

// 0: a type that is not known here.
std::size_t size_of(ncclDataType_t type);

// out = the sum of the ranks' parts, added in FP32 in the order of ranks and rounded once; whole numbers as such.
void add_parts(ncclDataType_t type, const std::vector<Bytes>& parts, void* out);

}  // namespace plumbline::tests::host_gpu
