// The arithmetic of the GPU kernels, run on the CPU and compared with double precision.
#include "real/cuda/kernels/arithmetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "real/cuda/kernels/arithmetic/rows.h"
#include "real/cuda/measure/comparison.h"
#include "real/cuda/measure/detail/expected.h"

namespace plumbline::real::cuda {
namespace {

// Returns an E4M3 number by its definition: (-1)^s 2^(e-7) (1 + m/8), denormals 2^-6 m/8.
double fp8_by_definition(int bits) {
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::nan("");
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa / 8.0, -6) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

// Returns the nearest of all 127 magnitudes, ties to the even code; the largest for all values beyond it.
int nearest_fp8(double value) {
  int best = 0;
  for (int code = 1; code <= 0x7e; ++code) {
    const double now = std::abs(fp8_by_definition(code) - std::abs(value));
    const double before = std::abs(fp8_by_definition(best) - std::abs(value));
    if (now < before || (now == before && code % 2 == 0)) best = code;
  }
  return best | (std::signbit(value) ? 0x80 : 0);
}

TEST(CudaFp8, EveryCodeHasItsDefinedValue) {
  for (int code = 0; code < 256; ++code) {
    const float value = fp8_to_float(static_cast<std::uint8_t>(code));
    if (std::isnan(fp8_by_definition(code))) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(value, fp8_by_definition(code)) << code;
      EXPECT_EQ(float_to_fp8(value), code);  // and comes back
    }
  }
}

TEST(CudaFp8, RoundsToTheNearestTiesToEven) {
  // Between any two adjacent codes: just below, at, and just above the middle.
  for (int code = 0; code < 0x7e; ++code) {
    const double middle = (fp8_by_definition(code) + fp8_by_definition(code + 1)) / 2;
    for (const double value : {middle * (1 - 1e-6), middle, middle * (1 + 1e-6)}) {
      for (const double sign : {1.0, -1.0}) {
        const auto rounded = static_cast<float>(sign * value);
        EXPECT_EQ(float_to_fp8(rounded), nearest_fp8(rounded)) << rounded;
      }
    }
  }
}

TEST(CudaFp8, RandomValuesOfAllSizes) {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const auto exponent = static_cast<int>(random_bits(1, i) % 24) - 14;
    const float value = std::ldexp(random_normal(2, i), exponent);
    EXPECT_EQ(float_to_fp8(value), nearest_fp8(value)) << value;
  }
}

TEST(CudaFp8, DenormalsZeroSaturationAndNan) {
  const float step = std::ldexp(1.0f, -9);  // the smallest magnitude
  EXPECT_EQ(float_to_fp8(step), 0x01);
  EXPECT_EQ(float_to_fp8(step / 2), 0x00);  // a tie, to even
  EXPECT_EQ(float_to_fp8(std::nextafter(step / 2, 1.0f)), 0x01);
  EXPECT_EQ(float_to_fp8(1.5f * step), 0x02);  // a tie, to even
  EXPECT_EQ(float_to_fp8(7.5f * step), 0x08);  // up to the smallest normal number, 2^-6
  EXPECT_EQ(float_to_fp8(std::numeric_limits<float>::denorm_min()), 0x00);
  EXPECT_EQ(float_to_fp8(-0.0f), 0x80);
  EXPECT_EQ(float_to_fp8(448.0f), 0x7e);
  EXPECT_EQ(float_to_fp8(449.0f), 0x7e);
  EXPECT_EQ(float_to_fp8(-1e30f), 0xfe);
  EXPECT_EQ(float_to_fp8(std::numeric_limits<float>::infinity()), 0x7e);
  EXPECT_EQ(float_to_fp8(std::nanf("")) & 0x7f, 0x7f);
}

TEST(CudaBf16, RoundsToTheNearestTiesToEven) {
  EXPECT_EQ(float_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bf16(float_of(0x3f808000u)), 0x3f80);  // a tie, to even
  EXPECT_EQ(float_to_bf16(float_of(0x3f818000u)), 0x3f82);  // a tie, to even
  EXPECT_EQ(float_to_bf16(float_of(0x3f808001u)), 0x3f81);
  EXPECT_EQ(bf16_to_float(float_to_bf16(std::numeric_limits<float>::infinity())),
            std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(float_of(0x7f800001u)))));  // the payload is in the lower half
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const float value = random_normal(3, i);
    // The error is half a unit in the last of 8 significant bits.
    EXPECT_LE(std::abs(bf16_to_float(float_to_bf16(value)) - value), std::abs(value) / 256);
  }
}

// Quantises `columns` values of a row as the kernel does: the largest magnitude of a block sets its scale.
TEST(CudaScales, QuantisedBlocksKeepTheirLargestValueAndAFewPercent) {
  Comparison comparison;
  for (std::uint64_t block = 0; block < 50; ++block) {
    const float size = std::ldexp(1.0f, static_cast<int>(block) - 25);
    std::vector<float> values;
    for (std::uint64_t i = 0; i < 128; ++i) values.push_back(size * random_normal(4, block * 128 + i));
    const float largest = std::abs(
        *std::max_element(values.begin(), values.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
    const float scale = block_scale(largest);
    EXPECT_EQ(fp8_to_float(float_to_fp8(largest / scale)), 448.0f);
    for (const float value : values) {
      const double back = static_cast<double>(fp8_to_float(float_to_fp8(value / scale))) * scale;
      // Half a unit of 4 significant bits, or half a denormal step of the scaled block.
      EXPECT_LE(std::abs(back - value), std::max(std::abs(value) / 16.0, scale * std::ldexp(1.0, -10)) * 1.0001);
      comparison.add(back / size, value / size);
    }
  }
  // Rounding errors that are uniformly distributed: 2^-4 / sqrt(3) at worst, less at the upper ends of binades.
  EXPECT_LT(comparison.relative_error(), 0.036);
  EXPECT_EQ(block_scale(0.0f), 1.0f);
}

TEST(CudaScales, LayoutsAreThoseThatTheMatrixLibraryDocuments) {
  // Per row: rows contiguous. 5 blocks of a [256, 640] operand.
  EXPECT_EQ(row_scale_count(256, 640), 256 * 5);
  EXPECT_EQ(row_scale_index(7, 0, 256), 7);
  EXPECT_EQ(row_scale_index(7, 3, 256), 3 * 256 + 7);
  // Per 128 x 128: blocks along k contiguous, 5 of them padded to 8; rows 0 to 127 share.
  EXPECT_EQ(padded_block_count(640), 8);
  EXPECT_EQ(padded_block_count(512), 4);
  EXPECT_EQ(square_scale_count(300, 640), 3 * 8);
  EXPECT_EQ(square_scale_index(127, 4, 640), 4);
  EXPECT_EQ(square_scale_index(128, 4, 640), 8 + 4);
  EXPECT_EQ(tiles_of(129), 2);
}

TEST(CudaKernels, RmsNormOfARow) {
  constexpr int columns = 7168;
  float sum = 0;
  double exact = 0;
  std::vector<float> row;
  for (std::uint64_t i = 0; i < columns; ++i) {
    row.push_back(3 * random_normal(5, i));
    sum += row.back() * row.back();
    exact += static_cast<double>(row.back()) * row.back();
  }
  const double expected = 1 / std::sqrt(exact / columns + 1e-6);
  EXPECT_NEAR(rms_inverse(sum, columns, 1e-6f) / expected, 1, 1e-5);
  EXPECT_NEAR(rms_inverse(0, columns, 1e-6f), 1000, 1e-2);  // zeros: epsilon alone
}

TEST(CudaKernels, SwiGlu) {
  Comparison comparison;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const float gate = 10 * random_normal(6, i), up = random_normal(7, i);
    comparison.add(swiglu(gate, up), gate / (1 + std::exp(-static_cast<double>(gate))) * up);
  }
  EXPECT_LT(comparison.relative_error(), 1e-5);
  EXPECT_EQ(swiglu(0, 5), 0);
  EXPECT_EQ(swiglu(-200, 5), 0);  // exp overflows, the quotient does not
  EXPECT_EQ(swiglu(100, 2), 200);
}

TEST(CudaKernels, PermutationGivesEveryTokenTopKDistinctExperts) {
  constexpr std::int64_t tokens = 256, spread = 32, top_k = 8;
  constexpr std::int64_t rows_per_expert = tokens / spread;
  std::vector<std::set<std::int64_t>> experts(tokens);
  std::int64_t previous = -1;
  for (std::int64_t row = 0; row < tokens * top_k; ++row) {
    const std::int64_t token = permuted_source(row, tokens, spread);
    ASSERT_GE(token, 0);
    ASSERT_LT(token, tokens);
    // Rows of one expert are in the order of their tokens.
    if (row % rows_per_expert != 0) {
      EXPECT_GT(token, previous);
    }
    previous = token;
    EXPECT_TRUE(experts[static_cast<std::size_t>(token)].insert(row / rows_per_expert).second);
  }
  for (const auto& of_token : experts) EXPECT_EQ(of_token.size(), static_cast<std::size_t>(top_k));
}

TEST(CudaKernels, RandomNumbersAreNearlyNormal) {
  double sum = 0, squares = 0;
  constexpr int count = 100000;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double value = random_normal(12, i);
    ASSERT_LT(std::abs(value), 3.47);
    sum += value;
    squares += value * value;
  }
  // Four standard errors: 4 / sqrt(count), and 4 sqrt(2 / count).
  EXPECT_NEAR(sum / count, 0, 0.0127);
  EXPECT_NEAR(squares / count, 1, 0.0179);
}

TEST(CudaComparison, NanNeverPasses) {
  Comparison comparison;
  comparison.add(1.001, 1);
  EXPECT_TRUE(comparison.outcome(1e-2).ok);
  EXPECT_FALSE(comparison.outcome(1e-4).ok);
  comparison.add(std::nan(""), 1);
  EXPECT_FALSE(comparison.outcome(1).ok);
  EXPECT_FALSE(Comparison().outcome(1).ok);  // nothing was compared
}

}  // namespace
}  // namespace plumbline::real::cuda
