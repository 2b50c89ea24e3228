#include "real/host/rounding.h"

#include <bit>
#include <cstdint>

namespace plumbline::real::host {
namespace {

using std::bit_cast;

constexpr std::uint32_t sign_bit = 0x80000000, infinity = 0x7f800000, quiet_bit = 0x00400000;
constexpr std::uint32_t smallest_normal_fp16 = 0x38800000;  // 2^-14
constexpr std::uint32_t beyond_fp16 = 0x47800000;           // 65536: numbers that round to it or above become infinite

std::uint32_t all_bits_if(bool condition) { return 0U - static_cast<std::uint32_t>(condition); }

// Avoids branches, so that loops over these functions are vectorized: two to three times as fast as Eigen's casts.
std::uint32_t nearest_bf16(std::uint32_t bits) {
  const std::uint32_t is_nan = all_bits_if((bits & ~sign_bit) > infinity);
  const std::uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return ((rounded & ~is_nan) | ((bits | quiet_bit) & is_nan)) & 0xffff0000;
}

std::uint32_t nearest_fp16(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & ~sign_bit;
  const std::uint32_t is_small = all_bits_if(magnitude < smallest_normal_fp16);
  const std::uint32_t is_nan = all_bits_if(magnitude > infinity);
  // Floats between 1/2 and 1 are multiples of 2^-24, like FP16's denormals, so this sum rounds to a denormal.
  const auto denormal = bit_cast<std::uint32_t>((bit_cast<float>(magnitude & is_small) + 0.5F) - 0.5F);
  const std::uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1)) & 0xffffe000;
  const std::uint32_t overflows = all_bits_if(normal >= beyond_fp16);
  const std::uint32_t finite = (denormal & is_small) | (normal & ~is_small);
  const std::uint32_t number = (finite & ~overflows) | (infinity & overflows);
  return (number & ~is_nan) | (((magnitude | quiet_bit) & 0xffffe000) & is_nan) | (bits & sign_bit);
}

template <std::uint32_t (*nearest)(std::uint32_t)>
void round_all(std::span<float> values) {
  for (float& value : values) value = bit_cast<float>(nearest(bit_cast<std::uint32_t>(value)));
}

}  // namespace

void round_to(model::DataType type, std::span<float> values) {
  if (type == model::DataType::bf16) round_all<nearest_bf16>(values);
  if (type == model::DataType::fp16) round_all<nearest_fp16>(values);
}

bool is_16_bit(model::DataType type) { return type == model::DataType::bf16 || type == model::DataType::fp16; }

}  // namespace plumbline::real::host
