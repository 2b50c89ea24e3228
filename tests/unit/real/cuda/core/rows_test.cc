// The arithmetic of the GPU's row kernels compared with double precision, and the maps of columns with plain loops.
#include "real/cuda/kernels/arithmetic/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "real/cuda/kernels/arithmetic/attention.h"
#include "real/cuda/kernels/arithmetic/permutation.h"

namespace plumbline::real::cuda {
namespace {

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

}  // namespace
}  // namespace plumbline::real::cuda
