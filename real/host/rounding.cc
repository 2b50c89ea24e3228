#include "real/host/rounding.h"

#include <bit>
#include <cmath>

namespace plumbline::real::host {

namespace {

constexpr std::uint32_t sign_bit = 0x80000000, infinity = 0x7f800000, quiet_bit = 0x00400000;
constexpr std::uint32_t smallest_normal_fp16 = 0x38800000;  // 2^-14
constexpr std::uint32_t beyond_fp16 = 0x47800000;           // 65536: what the largest finite number rounds up to
constexpr int bias_difference = 127 - 15;                   // of the exponents of FP32 and FP16

// Without branches, so that loops over them become vector instructions.
std::uint32_t nearest_bf16(std::uint32_t bits) {
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
  const std::uint32_t quiet = (bits | quiet_bit) & 0xffff0000;
  return (bits & ~sign_bit) > infinity ? quiet : rounded;
}

std::uint32_t nearest_fp16(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & ~sign_bit;
  std::uint32_t rounded = (magnitude + 0xfff + ((magnitude >> 13) & 1)) & 0xffffe000;
  rounded = rounded >= beyond_fp16 ? infinity : rounded;
  // Floats between 1/2 and 1 are multiples of 2^-24, as FP16's denormals are.
  const auto denormal = std::bit_cast<std::uint32_t>((std::bit_cast<float>(magnitude) + 0.5F) - 0.5F);
  rounded = magnitude < smallest_normal_fp16 ? denormal : rounded;
  rounded = magnitude > infinity ? ((magnitude | quiet_bit) & 0xffffe000) : rounded;
  return rounded | (bits & sign_bit);
}

template <std::uint32_t (*nearest)(std::uint32_t)>
void round_all(std::span<float> values) {
  for (float& value : values) value = std::bit_cast<float>(nearest(std::bit_cast<std::uint32_t>(value)));
}

}  // namespace

std::uint16_t to_bf16(float value) {
  return static_cast<std::uint16_t>(nearest_bf16(std::bit_cast<std::uint32_t>(value)) >> 16);
}

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t to_fp16(float value) {
  const std::uint32_t bits = nearest_fp16(std::bit_cast<std::uint32_t>(value));
  const std::uint32_t magnitude = bits & ~sign_bit;
  std::uint32_t half = (magnitude >> 13) - (bias_difference << 10);
  if (magnitude >= infinity) half = 0x7c00 | ((magnitude >> 13) & 0x3ff);
  if (magnitude < smallest_normal_fp16)
    half = static_cast<std::uint32_t>(std::ldexp(std::bit_cast<float>(magnitude), 24));
  return static_cast<std::uint16_t>(half | (bits & sign_bit) >> 16);
}

float from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t half = bits & 0x7fff;
  std::uint32_t magnitude = (half << 13) + (std::uint32_t{bias_difference} << 23);
  if (half >= 0x7c00) magnitude = infinity | (half & 0x3ff) << 13;
  if (half < 0x0400) magnitude = std::bit_cast<std::uint32_t>(std::ldexp(static_cast<float>(half), -24));
  return std::bit_cast<float>(magnitude | sign);
}

void round_to(model::DataType type, std::span<float> values) {
  if (type == model::DataType::bf16) round_all<nearest_bf16>(values);
  if (type == model::DataType::fp16) round_all<nearest_fp16>(values);
}

bool is_16_bit(model::DataType type) { return type == model::DataType::bf16 || type == model::DataType::fp16; }

}  // namespace plumbline::real::host
