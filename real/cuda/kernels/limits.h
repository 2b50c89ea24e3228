// What kernels cannot do, for those who must say so by name.
#pragma once

#include <cstdint>

namespace plumbline::real::cuda {

// Columns of a row that norms and the softmax hold in registers: two vectors of eight for each of 1024 threads.
constexpr std::int64_t widest_row = 16384;

}  // namespace plumbline::real::cuda
