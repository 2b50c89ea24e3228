// Writes to and reads from the memory of a device: bits, places of scales, round trips.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "real/cuda/device/buffer.h"
#include "real/cuda/device/detail/host_copy.h"
#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {
namespace {

// A tensor in the host's memory, with every byte set before it is written.
struct Memory {
  std::vector<std::uint8_t> bytes;
  std::vector<float> scales;
  TensorView view;

  Memory(Format format, std::int64_t rows, std::int64_t columns, std::int64_t matrix_rows)
      : bytes(static_cast<std::size_t>(data_bytes(format, rows * columns)), 0xff),
        scales(static_cast<std::size_t>(scale_count(format, rows, columns, matrix_rows)), NAN),
        view{bytes.data(), scales.data(), format, rows, columns, matrix_rows} {}

  std::vector<float> there_and_back(const std::vector<float>& values) {
    encode(values, view);
    std::vector<float> result(values.size(), NAN);
    decode(view, result);
    return result;
  }
};

std::vector<float> normal_numbers(std::int64_t count, std::uint64_t seed) {
  std::vector<float> values;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    const int exponent = static_cast<int>(random_bits(seed, i) % 8) - 4;
    values.push_back(std::ldexp(random_normal(seed + 1, i), exponent));
  }
  return values;
}

TEST(CudaConversion, SixteenBitsKeepTheirRelativePrecision) {
  const std::vector<float> values = normal_numbers(3000, 1);
  for (const auto& [format, bits] : {std::pair{Format::bf16, 8}, {Format::fp16, 11}}) {
    const std::vector<float> back = Memory(format, 30, 100, 30).there_and_back(values);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_LE(std::abs(back[i] - values[i]), std::ldexp(std::abs(values[i]), -bits) + std::ldexp(1.0F, -25));
  }
  EXPECT_EQ(Memory(Format::fp32, 30, 100, 30).there_and_back(values), values);
}

TEST(CudaConversion, WholeNumbersAreRoundedAndBounded) {
  const std::vector<float> values = {-1, 0, 2.4F, 2.6F, 16777216, -3e9F, 3e9F, NAN};
  EXPECT_EQ(Memory(Format::int32, 8, 1, 8).there_and_back(values),
            (std::vector<float>{-1, 0, 2, 3, 16777216, -2147483648.0F, 2147483648.0F, 0}));
  EXPECT_EQ(Memory(Format::int64, 8, 1, 8).there_and_back(values),
            (std::vector<float>{-1, 0, 2, 3, 16777216, -3e9F, 3e9F, 0}));
  EXPECT_EQ(Memory(Format::uint8, 8, 1, 8).there_and_back(values), (std::vector<float>{0, 0, 2, 3, 255, 0, 255, 0}));
}

// Returns for each element the largest magnitude among those that share its scale.
std::vector<double> largest_of_tiles(const std::vector<float>& values, std::int64_t columns, std::int64_t tile_rows,
                                     std::int64_t matrix_rows) {
  std::vector<double> result(values.size());
  const auto tile = [&](std::int64_t i) {
    const std::int64_t row = i / columns, matrix = row / matrix_rows;
    return std::tuple(matrix, row % matrix_rows / tile_rows, i % columns / 128);
  };
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < values.size(); ++j)
      if (tile(static_cast<std::int64_t>(i)) == tile(static_cast<std::int64_t>(j)))
        result[i] = std::max(result[i], std::abs(static_cast<double>(values[j])));
  return result;
}

struct ScaledCase {
  Format format;
  std::int64_t tile_rows;
  double largest_code;
  double relative, least;  // errors: of a value, and of a scale (half a denormal step)
};

TEST(CudaConversion, ScaledFormatsRoundWithinTheScaleOfTheirTile) {
  constexpr std::int64_t rows = 12, columns = 200, matrix_rows = 6;
  std::vector<float> values = normal_numbers(rows * columns, 3);
  for (std::int64_t row = 0; row < rows; ++row)  // tiles have very different sizes
    for (std::int64_t column = 0; column < columns; ++column)
      values[static_cast<std::size_t>(row * columns + column)] *= std::ldexp(1.0F, static_cast<int>(row % 5) * 3);
  for (const ScaledCase& c : {ScaledCase{Format::fp8_tile, 1, 448, 1.0 / 16, std::ldexp(1, -10)},
                              ScaledCase{Format::fp8_block, 128, 448, 1.0 / 16, std::ldexp(1, -10)},
                              ScaledCase{Format::e5m6, 1, 65024, 1.0 / 128, std::ldexp(1, -21)}}) {
    Memory memory(c.format, rows, columns, matrix_rows);
    const std::vector<float> back = memory.there_and_back(values);
    const std::vector<double> largest = largest_of_tiles(values, columns, c.tile_rows, matrix_rows);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const double exact = largest[i] / c.largest_code;
      const bool power_of_two = c.format == Format::e5m6;
      const double scale = power_of_two ? std::exp2(std::ceil(std::log2(exact))) : exact;
      EXPECT_NEAR(memory.scales[scale_index(memory.view, at / columns, at % columns)], scale, 1e-6 * scale);
      EXPECT_LE(std::abs(back[i] - values[i]),
                1.001 * std::max(c.relative * std::abs(static_cast<double>(values[i])), c.least * scale));
      if (!power_of_two && std::abs(static_cast<double>(values[i])) == largest[i]) {
        EXPECT_NEAR(back[i], values[i], 1e-6 * largest[i]);
      }
    }
    EXPECT_EQ(memory.there_and_back(back), back);  // values that the format holds do not change
  }
}

TEST(CudaConversion, OneScaleForTheTensorAndZerosHaveScaleOne) {
  Memory memory(Format::fp8_tensor, 2, 3, 2);
  EXPECT_EQ(memory.there_and_back({0, 0, 0, 0, 0, 0}), std::vector<float>(6, 0.0F));
  EXPECT_EQ(memory.scales, std::vector<float>{1});
  EXPECT_EQ(memory.there_and_back({0, 448, -896, 0, 14, 56}), (std::vector<float>{0, 448, -896, 0, 14, 56}));
  EXPECT_EQ(memory.scales, std::vector<float>{2});
}

TEST(CudaConversion, ScalesLieRowByRow) {
  // Two matrices of 130 x 300: 2 x 3 blocks each.
  const TensorView blocks{nullptr, nullptr, Format::fp8_block, 260, 300, 130};
  EXPECT_EQ(scale_count(Format::fp8_block, 260, 300, 130), 12);
  EXPECT_EQ(scale_index(blocks, 0, 299), 2);
  EXPECT_EQ(scale_index(blocks, 129, 0), 3);
  EXPECT_EQ(scale_index(blocks, 130, 128), 7);  // the second matrix
  EXPECT_EQ(scale_index(blocks, 259, 299), 11);
  const TensorView tiles{nullptr, nullptr, Format::fp8_tile, 260, 300, 130};
  EXPECT_EQ(scale_index(tiles, 259, 299), 259 * 3 + 2);
}

TEST(CudaConversion, AnOddNumberOfE5m6ValuesFits) {
  Memory memory(Format::e5m6, 1, 3, 1);
  EXPECT_EQ(memory.bytes.size(), 6U);
  const std::vector<float> back = memory.there_and_back({1, -0.5F, 0.25F});
  for (const auto& [actual, expected] : {std::pair{back[0], 1.0F}, {back[1], -0.5F}, {back[2], 0.25F}})
    EXPECT_NEAR(actual, expected, 0.01 * std::abs(expected));
}

TEST(CudaConversion, ShapesOfTensors) {
  const auto shape = [](std::vector<model::Dimension> dimensions) {
    const TensorShape result = matrix_shape({.shape = std::move(dimensions)});
    return std::tuple(result.rows, result.columns, result.matrix_rows);
  };
  EXPECT_EQ(shape({{7}}), std::tuple(7, 1, 7));
  EXPECT_EQ(shape({{7}, {5}}), std::tuple(7, 5, 7));
  EXPECT_EQ(shape({{3}, {7}, {5}}), std::tuple(21, 5, 7));
}

}  // namespace
}  // namespace plumbline::real::cuda
