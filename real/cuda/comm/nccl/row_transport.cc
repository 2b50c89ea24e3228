#include "real/cuda/comm/nccl/row_transport.h"

namespace plumbline::real::cuda {

std::vector<std::int64_t> payload_offsets(std::span<const std::int64_t> row_bytes, std::int64_t rows) {
  constexpr std::int64_t alignment = 256;
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t row : row_bytes)
    offsets.push_back(offsets.back() + (row * rows + alignment - 1) / alignment * alignment);
  return offsets;
}

}  // namespace plumbline::real::cuda
