#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <set>
#include <vector>

#include "model/base/random.h"
#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/kernels/arithmetic/attention.h"
#include "real/cuda/kernels/arithmetic/optimizer.h"
#include "real/cuda/kernels/arithmetic/permutation.h"
#include "real/cuda/kernels/arithmetic/rows.h"
#include "real/cuda/measure/comparison.h"
#include "real/cuda/measure/detail/expected.h"

namespace plumbline::real::cuda {
namespace {

// The arithmetic of the GPU kernels, run on the CPU and compared with double precision.

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

// The arithmetic of the GPU's row kernels compared with double precision, and the maps of columns with plain loops.

// Expects function values within eight units in the last place of FP32, plus the error of a cancellation from 1.
void expect_close(float value, double exact, double scale) {
  EXPECT_NEAR(value, exact, 8 * std::ldexp(1.0, -24) * std::max(std::abs(exact), scale)) << exact;
}

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_swiglu(double gate, double up) { return gate * exact_sigmoid(gate) * up; }
double exact_gelu(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

TEST(CudaActivations, SigmoidIsExactAlsoFarFromZero) {
  for (double x = -80; x < 80; x += 0.37)
    expect_close(sigmoid(static_cast<float>(x)), exact_sigmoid(static_cast<float>(x)), 0);
  EXPECT_EQ(sigmoid(-200.0f), 0.0f);
  EXPECT_EQ(sigmoid(200.0f), 1.0f);
}

// Compares with differences of the exact function over a step at which neither rounding nor curvature matters.
TEST(CudaActivations, GradientsOfSwigluAreItsDifferences) {
  constexpr double step = 1e-5;
  for (float gate = -12; gate < 12; gate += 0.61f) {
    for (const float up : {-2.5f, 0.0f, 0.75f}) {
      const SwigluGradient g = swiglu_gradient(1.5f, gate, up);
      const double d_gate = (exact_swiglu(gate + step, up) - exact_swiglu(gate - step, up)) / (2 * step);
      const double d_up = (exact_swiglu(gate, up + step) - exact_swiglu(gate, up - step)) / (2 * step);
      // The sigmoid is rounded once and then multiplied with the gate.
      EXPECT_NEAR(g.gate, 1.5 * d_gate, std::ldexp(1.5, -23) * std::abs(up) * (1 + std::abs(gate)) + 1e-9);
      EXPECT_NEAR(g.up, 1.5 * d_up, 2e-6 * std::max(1.0f, std::abs(gate)));
      EXPECT_NEAR(g.weight, 1.5 * exact_swiglu(gate, up), 1e-5);
    }
  }
}

TEST(CudaActivations, GeluAndItsGradientKeepTheirPrecisionInTheTail) {
  for (double x = -8; x < 8; x += 0.173) {
    const auto rounded = static_cast<float>(x);
    const double exact = exact_gelu(rounded);
    // The argument of erfc is rounded once: its relative error grows with x^2 in the tail.
    EXPECT_NEAR(gelu(rounded), exact, std::abs(exact) * 2e-7 * (2 + 2 * x * x) + 1e-37);
    const double slope = (exact_gelu(rounded + 1e-5) - exact_gelu(rounded - 1e-5)) / 2e-5;
    EXPECT_NEAR(gelu_gradient(3.0f, rounded), 3 * slope, 3e-6);
  }
}

// Returns the sum over the row of weight * normalised value.
double normed_sum(const std::vector<double>& x, const std::vector<double>& weight, bool centered) {
  double mean = 0, square = 0, sum = 0;
  for (const double value : x) mean += centered ? value / static_cast<double>(x.size()) : 0;
  for (const double value : x) square += (value - mean) * (value - mean) / static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) sum += weight[i] * (x[i] - mean) / std::sqrt(square + 1e-6);
  return sum;
}

void check_norm_gradient(bool centered) {
  constexpr std::size_t n = 40;
  std::vector<double> x, d;
  for (std::size_t i = 0; i < n; ++i) {
    x.push_back(random_normal(1, i) + 0.5f);
    d.push_back(random_normal(2, i));
  }
  double mean = 0, square = 0, mean_d = 0, along = 0;
  for (const double value : x) mean += centered ? value / n : 0;
  for (const double value : x) square += (value - mean) * (value - mean);
  const float scale = rms_inverse(static_cast<float>(square), n, 1e-6f);
  for (std::size_t i = 0; i < n; ++i) {
    mean_d += centered ? d[i] / n : 0;
    along += d[i] * (x[i] - mean) / n * scale * scale;
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> above = x, below = x;
    above[i] += 1e-5;
    below[i] -= 1e-5;
    const double exact = (normed_sum(above, d, centered) - normed_sum(below, d, centered)) / 2e-5;
    const float gradient = norm_input_gradient(static_cast<float>(d[i]), static_cast<float>(x[i] - mean), scale,
                                               static_cast<float>(mean_d), static_cast<float>(along));
    EXPECT_NEAR(gradient, exact, 2e-6);
  }
}

TEST(CudaNorms, TheGradientIsThatOfTheNorm) {
  check_norm_gradient(false);
  check_norm_gradient(true);
}

// The angle of cosine and sine is within 1e-6 of the exact one, also at large positions.
TEST(CudaRotation, FarPositionsAreAsExactAsNearOnes) {
  for (const double theta : {1e4, 5e5}) {
    for (const std::int64_t position : {0, 1, 63, 4095, 65537, 131071, 1048575}) {
      for (std::int64_t i = 0; i < 32; ++i) {
        const Rotation r = rotation(position, i, 64, std::log2(theta));
        const long double angle = static_cast<long double>(position) *
                                  std::pow(static_cast<long double>(theta), -static_cast<long double>(2 * i) / 64);
        EXPECT_NEAR(r.cosine, static_cast<double>(std::cos(angle)), 1e-6);
        EXPECT_NEAR(r.sine, static_cast<double>(std::sin(angle)), 1e-6);
      }
    }
  }
}

TEST(CudaSoftmax, AQuerySeesItselfAndItsWindow) {
  for (std::int64_t window : {0, 1, 3, 100}) {
    for (std::int64_t place = 0; place < 10; ++place) {
      const KeyRange seen = seen_keys(place, window);
      for (std::int64_t key = 0; key < 12; ++key) {
        const bool expected = key <= place && (window == 0 || place - key < window);
        EXPECT_EQ(key >= seen.begin && key < seen.end, expected) << place << " " << key << " " << window;
      }
    }
  }
  EXPECT_FLOAT_EQ(alibi_slope(7, 8), std::ldexp(1.0f, -8));
  EXPECT_FLOAT_EQ(alibi_slope(0, 12), static_cast<float>(std::exp2(-8.0 / 12)));
}

// A row of keys is the nope columns of every head's part of kv, then the rotary key.
TEST(CudaColumns, HeadsComeFromTheirPartsAndASharedOne) {
  constexpr std::int64_t heads = 3, nope = 5, rope = 4, value = 6;
  const HeadColumns keys{.first_width = nope, .first_stride = nope + value, .second_width = rope};
  const HeadColumns values{.first_width = value, .first_stride = nope + value, .first_offset = nope};
  std::int64_t column = 0, value_column = 0;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t i = 0; i < nope + rope; ++i, ++column) {
      const ColumnSource source = keys(column);
      EXPECT_EQ(source.part, i < nope ? 0 : 1);
      EXPECT_EQ(source.column, i < nope ? head * (nope + value) + i : i - nope);
      EXPECT_EQ(source.run, i < nope ? nope - i : nope + rope - i);
    }
    for (std::int64_t i = 0; i < value; ++i, ++value_column) {
      EXPECT_EQ(values(value_column).part, 0);
      EXPECT_EQ(values(value_column).column, head * (nope + value) + nope + i);
    }
  }
}

TEST(CudaColumns, PartsStandSideBySide) {
  const SideBySide map{{3, 1, 4}, 3};
  const std::vector<int> parts = {0, 0, 0, 1, 2, 2, 2, 2};
  const std::vector<std::int64_t> columns = {0, 1, 2, 0, 0, 1, 2, 3}, runs = {3, 2, 1, 1, 4, 3, 2, 1};
  for (std::size_t c = 0; c < parts.size(); ++c) {
    const ColumnSource source = map(static_cast<std::int64_t>(c));
    EXPECT_EQ(source.part, parts[c]);
    EXPECT_EQ(source.column, columns[c]);
    EXPECT_EQ(source.run, runs[c]);
  }
}

TEST(CudaTranspose, BytesOfFourWordsAreTransposed) {
  std::uint32_t words[4] = {0x03020100u, 0x13121110u, 0x23222120u, 0x33323130u};
  turn_bytes(words);
  EXPECT_EQ(words[0], 0x30201000u);
  EXPECT_EQ(words[1], 0x31211101u);
  EXPECT_EQ(words[2], 0x32221202u);
  EXPECT_EQ(words[3], 0x33231303u);
}

TEST(CudaFormats, EightE5m6LieAsFourPairs) {
  std::uint32_t values[8], words[3], back[8];
  for (std::uint32_t i = 0; i < 8; ++i) values[i] = random_bits(5, i) & 0xfffu;
  pack_vec8_e5m6(values, words);
  std::uint8_t bytes[12], packed[12];
  for (int i = 0; i < 12; ++i) packed[i] = static_cast<std::uint8_t>(words[i / 4] >> i % 4 * 8);
  for (int pair = 0; pair < 4; ++pair)
    pack_e5m6(static_cast<std::uint16_t>(values[2 * pair]), static_cast<std::uint16_t>(values[2 * pair + 1]),
              bytes + 3 * pair);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(packed[i], bytes[i]);
  unpack_vec8_e5m6(words, back);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(back[i], values[i]);
}

// Kernels multiply with the reciprocal of a scale: it must be finite, or zeros would become NaN.
TEST(CudaFormats, ReciprocalsOfScalesAreFinite) {
  for (int exponent = -149; exponent < 128; ++exponent) {
    const float largest = std::ldexp(1.0f, exponent);
    EXPECT_TRUE(std::isfinite(1.0f / block_scale(largest)) && block_scale(largest) > 0) << exponent;
    EXPECT_TRUE(std::isfinite(1.0f / e5m6_scale(largest)) && e5m6_scale(largest) > 0) << exponent;
  }
}

// FP16 and E5M6 of the kernels compared with their definitions in double precision.

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

// AdamW of the GPU kernels compared with its definition (arXiv 1711.05101) in double precision.

struct Weight {
  double value = 0, first = 0, second = 0;

  void update(const UpdateNumbers& n, double gradient) {
    first = n.beta1 * first + (1 - n.beta1) * gradient;
    second = n.beta2 * second + (1 - n.beta2) * gradient * gradient;
    const auto step = static_cast<double>(n.step);
    const double m = first / (1 - std::pow(n.beta1, step)), v = second / (1 - std::pow(n.beta2, step));
    value -= n.learning_rate * (m / (std::sqrt(v) + n.epsilon) + n.weight_decay * value);
  }
};

TEST(CudaOptimizer, UpdatesAsAdamWIsDefined) {
  model::Random random(5);
  for (const double gradient_size : {1.0, 1e-4, 1e-9}) {  // the last is about epsilon
    float value = static_cast<float>(random.normal()), first = 0, second = 0;
    Weight expected{static_cast<double>(value), 0, 0};
    for (std::int64_t step = 1; step <= 200; ++step) {
      const UpdateNumbers numbers{1e-3, 0.9, 0.95, 1e-8, 0.1, step};
      const auto gradient = static_cast<float>(gradient_size * random.normal());
      const double before = expected.value;
      expected.update(numbers, static_cast<double>(gradient));
      value = updated_weight(update_rule(numbers), gradient, value, first, second);
      // The last step's change is right to 0.1 %, the sum of all changes to rounding.
      EXPECT_NEAR(static_cast<double>(value), expected.value, 1e-3 * std::abs(expected.value - before) + 1e-5);
    }
    EXPECT_NEAR(static_cast<double>(first) / expected.first, 1, 1e-4);
    EXPECT_NEAR(static_cast<double>(second) / expected.second, 1, 1e-4);
  }
}

TEST(CudaOptimizer, TheFirstStepMovesByTheLearningRate) {
  float first = 0, second = 0;
  const UpdateRule rule = update_rule({0.01, 0.9, 0.95, 1e-8, 0, 1});
  EXPECT_NEAR(static_cast<double>(updated_weight(rule, 3.0F, 1.0F, first, second)), 0.99, 1e-6);
  EXPECT_NEAR(static_cast<double>(updated_weight(rule, -3.0F, 1.0F, first = 0, second = 0)), 1.01, 1e-6);
}

TEST(CudaOptimizer, GradientsAreClippedToTheLargestNorm) {
  EXPECT_EQ(clip_factor(16.0F, 1.0), 0.25F);
  EXPECT_EQ(clip_factor(1.0F, 1.0), 1.0F);
  EXPECT_EQ(clip_factor(0.25F, 1.0), 1.0F);
  EXPECT_EQ(clip_factor(0.0F, 1.0), 1.0F);
}

TEST(CudaOptimizer, SumsAreDividedTheSameWayWhateverTheDevice) {
  EXPECT_EQ(sum_blocks(0), 0);
  EXPECT_EQ(sum_blocks(1), 1);
  EXPECT_EQ(sum_blocks(sum_block_elements + 1), 2);
  EXPECT_EQ(sum_blocks(1'000'000'000'000), most_sum_blocks);
}

}  // namespace
}  // namespace plumbline::real::cuda
