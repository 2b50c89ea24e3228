// FP16 and E5M6 of the kernels compared with their definitions in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {
namespace {

// (-1)^s 2^(e-15) (1 + m/2^bits), denormals 2^-14 m/2^bits; exponent 31 is infinity or NaN.
double by_definition(int code, int mantissa_bits) {
  const int ones = 1 << mantissa_bits;
  const int exponent = (code / ones) & 31, mantissa = code % ones;
  const bool negative = (code / ones / 32) & 1;
  double magnitude = exponent == 0 ? std::ldexp(static_cast<double>(mantissa) / ones, -14)
                                   : std::ldexp(1 + static_cast<double>(mantissa) / ones, exponent - 15);
  if (exponent == 31) magnitude = mantissa == 0 ? INFINITY : NAN;
  return negative ? -magnitude : magnitude;
}

struct HalfFormat {
  int mantissa_bits;
  std::uint16_t (*encode)(float);
  float (*decode)(std::uint16_t);
  int infinity() const { return 31 << mantissa_bits; }
};
const HalfFormat formats[] = {{10, float_to_fp16, fp16_to_float}, {6, float_to_e5m6, e5m6_to_float}};

TEST(CudaFormats, EveryFiniteCodeHasItsDefinedValueAndComesBack) {
  for (const HalfFormat& format : formats)
    for (int code = 0; code < 2 << (5 + format.mantissa_bits); ++code) {
      const double value = by_definition(code, format.mantissa_bits);
      const float decoded = format.decode(static_cast<std::uint16_t>(code));
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(decoded)) << code;
        EXPECT_TRUE(std::isnan(format.decode(format.encode(decoded)))) << code;
      } else {
        EXPECT_EQ(decoded, value) << code;
        if (std::isfinite(value)) {
          EXPECT_EQ(format.encode(decoded), code);
        }
      }
    }
}

TEST(CudaFormats, RoundToTheNearestTiesToEven) {
  for (const HalfFormat& format : formats)
    for (int code = 0; code + 1 < format.infinity(); ++code) {
      const double low = by_definition(code, format.mantissa_bits),
                   high = by_definition(code + 1, format.mantissa_bits);
      const auto middle = static_cast<float>((low + high) / 2);  // exact: one more bit
      const int sign = 1 << (5 + format.mantissa_bits);
      EXPECT_EQ(format.encode(middle), code + code % 2);
      EXPECT_EQ(format.encode(std::nextafter(middle, 0.0F)), code);
      EXPECT_EQ(format.encode(std::nextafter(middle, INFINITY)), code + 1);
      EXPECT_EQ(format.encode(-middle), sign | (code + code % 2));
    }
}

TEST(CudaFormats, BeyondTheLargestFp16OverflowsAndE5m6Saturates) {
  EXPECT_EQ(float_to_fp16(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_fp16(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_fp16(-INFINITY), 0xfc00);
  EXPECT_EQ(by_definition(0x7bf, 6), e5m6_largest);
  for (const float value : {65025.0F, 1e30F, INFINITY}) {
    EXPECT_EQ(float_to_e5m6(value), 0x7bf) << value;
    EXPECT_EQ(float_to_e5m6(-value), 0xfbf) << value;
  }
  EXPECT_EQ(float_to_e5m6(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(CudaFormats, TwoE5m6ValuesTakeThreeBytes) {
  for (std::uint32_t a = 0; a < 4096; a += 7)
    for (std::uint32_t b = 0; b < 4096; b += 11) {
      std::uint8_t bytes[3];
      pack_e5m6(static_cast<std::uint16_t>(a), static_cast<std::uint16_t>(b), bytes);
      EXPECT_EQ(bytes[0] | bytes[1] << 8 | bytes[2] << 16, static_cast<int>(a | b << 12));
      EXPECT_EQ(unpack_e5m6(bytes, 0), a);
      EXPECT_EQ(unpack_e5m6(bytes, 1), b);
    }
}

}  // namespace
}  // namespace plumbline::real::cuda
