// The arithmetic of the kernels, as inline functions for the host and the device compiler: the device runs them, and
// tests compare them with double precision on a machine without a GPU. Formats are held as raw bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define PLUMBLINE_HOST_DEVICE __host__ __device__
#else
#define PLUMBLINE_HOST_DEVICE
#endif

// Unrolls loops over a lane's values, because registers cannot be indexed.
#ifdef __CUDA_ARCH__
#define PLUMBLINE_UNROLL _Pragma("unroll")
#else
#define PLUMBLINE_UNROLL
#endif

namespace plumbline::real::cuda {

// Raw bits of E4M3 and BF16.
using Fp8 = std::uint8_t;
using Bf16 = std::uint16_t;

PLUMBLINE_HOST_DEVICE inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

PLUMBLINE_HOST_DEVICE inline float float_of(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// --- BF16: the upper half of an FP32, rounded to nearest, ties to even ---

PLUMBLINE_HOST_DEVICE inline float bf16_to_float(std::uint16_t value) {
  return float_of(static_cast<std::uint32_t>(value) << 16);
}

PLUMBLINE_HOST_DEVICE inline std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // stays NaN
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// --- FP16: bias 15, denormals of 2^-24; values beyond the largest become infinity ---

PLUMBLINE_HOST_DEVICE inline float fp16_to_float(std::uint16_t value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value & 0x8000u) << 16;
  const std::uint32_t exponent = (value >> 10) & 0x1fu;
  const std::uint32_t mantissa = value & 0x3ffu;
  if (exponent == 31u) return float_of(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0u) {
    const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;  // 2^-24
    return float_of(bits_of(magnitude) | sign);
  }
  return float_of(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

// Rounds to nearest, ties to even.
PLUMBLINE_HOST_DEVICE inline std::uint16_t float_to_fp16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24; adding 2^-1 leaves it in the last bits, rounded
    const std::uint32_t steps = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    return static_cast<std::uint16_t>(sign | steps);
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  if (rounded >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 2^16
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

// --- E5M6: FP16 with 6 bits of mantissa, in the lower 12 bits; two values take three bytes ---

constexpr float e5m6_largest = 65024.0f;

PLUMBLINE_HOST_DEVICE inline float e5m6_to_float(std::uint16_t value) {
  return fp16_to_float(static_cast<std::uint16_t>(value << 4));
}

// Rounds to nearest, ties to even; saturates at the largest value; NaN stays NaN.
PLUMBLINE_HOST_DEVICE inline std::uint16_t float_to_e5m6(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 20) & 0x800u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e0u);
  if (magnitude >= bits_of(e5m6_largest)) return static_cast<std::uint16_t>(sign | 0x7bfu);
  if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-20; adding 2^3 leaves it in the last bits, rounded
    const std::uint32_t steps = bits_of(float_of(magnitude) + 8.0f) - bits_of(8.0f);
    return static_cast<std::uint16_t>(sign | steps);
  }
  const std::uint32_t rounded = magnitude + 0xffffu + ((magnitude >> 17) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded >> 17) - (112u << 6)));
}

// The first value is in the lower bits of the first bytes.
PLUMBLINE_HOST_DEVICE inline void pack_e5m6(std::uint16_t first, std::uint16_t second, std::uint8_t* three_bytes) {
  const std::uint32_t both = first | static_cast<std::uint32_t>(second) << 12;
  three_bytes[0] = static_cast<std::uint8_t>(both);
  three_bytes[1] = static_cast<std::uint8_t>(both >> 8);
  three_bytes[2] = static_cast<std::uint8_t>(both >> 16);
}

PLUMBLINE_HOST_DEVICE inline std::uint16_t unpack_e5m6(const std::uint8_t* three_bytes, int which) {
  const std::uint8_t* at = three_bytes + which;
  const std::uint32_t two = at[0] | static_cast<std::uint32_t>(at[1]) << 8;
  return static_cast<std::uint16_t>(which == 0 ? two & 0xfffu : two >> 4);
}

// Packs eight values into three words, as four consecutive pairs.
PLUMBLINE_HOST_DEVICE inline void pack_vec8_e5m6(const std::uint32_t (&values)[8], std::uint32_t (&words)[3]) {
  words[0] = values[0] | values[1] << 12 | values[2] << 24;
  words[1] = values[2] >> 8 | values[3] << 4 | values[4] << 16 | values[5] << 28;
  words[2] = values[5] >> 4 | values[6] << 8 | values[7] << 20;
}
PLUMBLINE_HOST_DEVICE inline void unpack_vec8_e5m6(const std::uint32_t (&words)[3], std::uint32_t (&values)[8]) {
  values[0] = words[0] & 0xfffu;
  values[1] = words[0] >> 12 & 0xfffu;
  values[2] = words[0] >> 24 | (words[1] & 0xfu) << 8;
  values[3] = words[1] >> 4 & 0xfffu;
  values[4] = words[1] >> 16 & 0xfffu;
  values[5] = words[1] >> 28 | (words[2] & 0xffu) << 4;
  values[6] = words[2] >> 8 & 0xfffu;
  values[7] = words[2] >> 20;
}

// --- FP8 E4M3: bias 7, denormals of 2^-9, largest 448, no infinity; 0x7f and 0xff are NaN ---

constexpr float fp8_largest = 448.0f;

PLUMBLINE_HOST_DEVICE inline float fp8_to_float(std::uint8_t value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value & 0x80u) << 24;
  const std::uint32_t exponent = (value >> 3) & 0xfu;
  const std::uint32_t mantissa = value & 7u;
  if (exponent == 15u && mantissa == 7u) return float_of(0x7fc00000u | sign);
  if (exponent == 0u) {
    const float magnitude = static_cast<float>(mantissa) * 0.001953125f;  // 2^-9
    return float_of(bits_of(magnitude) | sign);
  }
  return float_of(sign | ((exponent + 120u) << 23) | (mantissa << 20));
}

// Rounds to nearest, ties to even; saturates at the largest value.
PLUMBLINE_HOST_DEVICE inline std::uint8_t float_to_fp8(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7fu);
  if (magnitude >= bits_of(fp8_largest)) return static_cast<std::uint8_t>(sign | 0x7eu);
  if (magnitude < 0x3c800000u) {  // below 2^-6: a multiple of 2^-9; adding 2^14 leaves it in the last bits, rounded
    const std::uint32_t steps = bits_of(float_of(magnitude) + 16384.0f) - bits_of(16384.0f);
    return static_cast<std::uint8_t>(sign | steps);  // 8 steps are the smallest normal number
  }
  const std::uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
  return static_cast<std::uint8_t>(sign | ((rounded >> 20) - (120u << 3)));
}

// --- Scales of 128 elements: stored value * scale = true value ---

constexpr std::int64_t scale_tile = 128;

// 2^-100: a block with smaller values becomes zeros, because the reciprocal of its scale could overflow.
constexpr float smallest_scaled = 7.888609052210118e-31f;

// The scale of a block whose largest magnitude is `largest`; 1 for a block of zeros.
PLUMBLINE_HOST_DEVICE inline float block_scale(float largest) {
  return largest >= smallest_scaled ? largest / fp8_largest : 1.0f;
}

// The scale of an E5M6 block, rounded up to a power of two (DeepSeek-V3 report, arXiv 2412.19437, section 3.3.3):
// values then convert to BF16 without another rounding.
PLUMBLINE_HOST_DEVICE inline float e5m6_scale(float largest) {
  if (!(largest >= smallest_scaled)) return 1.0f;
  const std::uint32_t bits = bits_of(largest / e5m6_largest);
  return float_of((bits + 0x7fffffu) & 0x7f800000u);
}

PLUMBLINE_HOST_DEVICE constexpr std::int64_t tiles_of(std::int64_t elements) {
  return (elements + scale_tile - 1) / scale_tile;
}

// The index at which cuBLASLt reads the scale of block `block` along k in row `row` of a [rows, k] operand (1 x 128
// scales): rows are contiguous.
PLUMBLINE_HOST_DEVICE inline std::int64_t row_scale_index(std::int64_t row, std::int64_t block, std::int64_t rows) {
  return block * rows + row;
}
PLUMBLINE_HOST_DEVICE inline std::int64_t row_scale_count(std::int64_t rows, std::int64_t k) {
  return rows * tiles_of(k);
}

// The index for 128 x 128 scales: blocks along k are contiguous, and their number is padded to a multiple of 4.
PLUMBLINE_HOST_DEVICE inline std::int64_t padded_block_count(std::int64_t k) { return (tiles_of(k) + 3) / 4 * 4; }
PLUMBLINE_HOST_DEVICE inline std::int64_t square_scale_index(std::int64_t row, std::int64_t block, std::int64_t k) {
  return row / scale_tile * padded_block_count(k) + block;
}
PLUMBLINE_HOST_DEVICE inline std::int64_t square_scale_count(std::int64_t rows, std::int64_t k) {
  return tiles_of(rows) * padded_block_count(k);
}

// --- Random data: a number depends on seed and index only ---

PLUMBLINE_HOST_DEVICE inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15ULL + index * 0xd1342543de82ef95ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// Approximately standard normal: the sum of four uniform numbers, centered and scaled. Within +-3.47.
PLUMBLINE_HOST_DEVICE inline float random_normal(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t bits = random_bits(seed, index);
  const std::uint64_t sum = (bits & 0xffffu) + ((bits >> 16) & 0xffffu) + ((bits >> 32) & 0xffffu) + (bits >> 48);
  return (static_cast<float>(sum) - 131070.0f) * (1.7320508f / 65536.0f);
}

}  // namespace plumbline::real::cuda
