// Limits of the kernels, for callers that report them by name.
#pragma once

#include <cstdint>

namespace plumbline::real::cuda {

// The most columns of a row that norms and the softmax hold in registers: two vectors of eight for each of 1024
// threads.
constexpr std::int64_t widest_row = 16384;

}  // namespace plumbline::real::cuda
