// A Chrome trace of every kernel and copy in a period, with a track per CUDA stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline::real::cuda {

struct KernelActivity {
  std::string name;  // mangled; "copy" or "fill" if it is no kernel
  std::uint32_t stream = 0;
  std::uint64_t start_ns = 0, end_ns = 0;
  std::uint32_t blocks = 0, threads = 0;  // of the grid, of a block
  std::uint32_t registers = 0, shared_bytes = 0;
  std::uint64_t bytes = 0;  // of a copy or a fill
};

// The earliest activity begins at 0. Times are microseconds with nanoseconds as decimals; names are demangled.
std::string kernel_trace(std::vector<KernelActivity> activities);

}  // namespace plumbline::real::cuda
