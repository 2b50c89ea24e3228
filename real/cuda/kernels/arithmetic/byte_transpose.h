// Transposes the bytes of a 4 x 4 block in registers.
#pragma once

#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

// Picks four of the eight bytes of `low` (0..3) and `high` (4..7), one per digit of `digits`, the lowest first.
PLUMBLINE_HOST_DEVICE inline std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t digits) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, digits);
#else
  const std::uint64_t bytes = low | static_cast<std::uint64_t>(high) << 32;
  std::uint32_t picked = 0;
  for (int i = 0; i < 4; ++i)
    picked |= static_cast<std::uint32_t>(bytes >> (digits >> 4 * i & 7u) * 8 & 0xffu) << 8 * i;
  return picked;
#endif
}

// Byte i of word j becomes byte j of word i.
PLUMBLINE_HOST_DEVICE inline void turn_bytes(std::uint32_t (&words)[4]) {
  const std::uint32_t low01 = pick_bytes(words[0], words[1], 0x5140u), high01 = pick_bytes(words[0], words[1], 0x7362u);
  const std::uint32_t low23 = pick_bytes(words[2], words[3], 0x5140u), high23 = pick_bytes(words[2], words[3], 0x7362u);
  words[0] = pick_bytes(low01, low23, 0x5410u);
  words[1] = pick_bytes(low01, low23, 0x7632u);
  words[2] = pick_bytes(high01, high23, 0x5410u);
  words[3] = pick_bytes(high01, high23, 0x7632u);
}

}  // namespace plumbline::real::cuda
