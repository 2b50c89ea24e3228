// Adds numbers of NCCL's types.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace plumbline::tests::host_gpu {

using Bytes = std::vector<char>;

// Returns 0 for an unknown type.
std::size_t size_of(ncclDataType_t type);

// Sets out to the sum of the ranks' parts, added in FP32 in the order of ranks and rounded once; whole numbers are
// added as such.
void add_parts(ncclDataType_t type, const std::vector<Bytes>& parts, void* out);

}  // namespace plumbline::tests::host_gpu
