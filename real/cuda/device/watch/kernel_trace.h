// Every kernel and copy of a stretch of time as a Chrome trace: a track per CUDA stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline::real::cuda {

struct KernelActivity {
  std::string name;  // as the compiler mangles it; "copy", "fill" of what is no kernel
  std::uint32_t stream = 0;
  std::uint64_t start_ns = 0, end_ns = 0;
  std::uint32_t blocks = 0, threads = 0;  // of a kernel's grid, of a block
  std::uint32_t registers = 0, shared_bytes = 0;
  std::uint64_t bytes = 0;  // of a copy or a fill
};

// The first of them begins at 0; microseconds with nanoseconds as decimals. Names are demangled.
std::string kernel_trace(std::vector<KernelActivity> activities);

}  // namespace plumbline::real::cuda
