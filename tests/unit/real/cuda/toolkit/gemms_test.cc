// Tests on the CPU how GEMMs of row-major tensors are passed to a column-major library, and the places of scales.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "real/cuda/kernels/element.h"
#include "real/cuda/kernels/permutation/permutation.h"
#include "real/cuda/operators/detail/multiply.h"

namespace plumbline::real::cuda {
namespace {

struct Matrix {
  std::int64_t rows, columns;
  std::vector<float> values;

  Matrix(std::int64_t r, std::int64_t c, std::uint64_t seed)
      : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_normal(seed, i);
  }
  TensorView view() { return {values.data(), nullptr, Format::fp32, rows, columns, rows}; }
};

double element(const MatrixPart& x, bool transposed, std::int64_t row, std::int64_t column) {
  const std::int64_t r = transposed ? column : row, c = transposed ? row : column;
  return static_cast<const float*>(x.tensor.data)[(x.row + r) * x.tensor.columns + x.column + c];
}

// Returns the result of the task in double precision, one GEMM of its batch after the other.
std::vector<double> by_rows(const GemmTask& t) {
  std::vector<double> c;
  for (std::int64_t index = 0; index < t.batch; ++index) {
    const PlainGemm p = plain_of(t, index);
    for (std::int64_t i = 0; i < p.c.rows; ++i) {
      for (std::int64_t j = 0; j < p.c.columns; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < t.depth(); ++k)
          sum += element(p.a, p.transpose_a, i, k) * element(p.b, p.transpose_b, k, j);
        c.push_back(p.factor * sum + (p.accumulate ? element(p.c, false, i, j) : 0));
      }
    }
  }
  return c;
}

float at(const void* data, const ColumnMajor& m, std::int64_t batch, std::int64_t row, std::int64_t column) {
  const std::int64_t r = m.transposed ? column : row, c = m.transposed ? row : column;
  EXPECT_LT(r, m.rows);
  EXPECT_LT(c, m.columns);
  return static_cast<const float*>(data)[batch * m.batch_stride + c * m.leading + r];
}

// Returns the library's result from its arguments alone: D = op(A) op(B) by columns, row-major like by_rows().
std::vector<double> by_columns(const GemmTask& t) {
  const GemmShape shape = shape_of(t);
  const ColumnMajorGemm told = column_major(shape);
  const GemmOperands o = operands_of(t);
  std::vector<double> d;
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    for (std::int64_t column = 0; column < told.d.columns; ++column) {
      for (std::int64_t row = 0; row < told.d.rows; ++row) {
        double sum = 0;
        for (std::int64_t k = 0; k < shape.k; ++k)
          sum += static_cast<double>(at(o.w, told.a, batch, row, k)) * at(o.x, told.b, batch, k, column);
        d.push_back(o.factor * sum + (shape.accumulate ? at(o.d, told.d, batch, row, column) : 0));
      }
    }
  }
  return d;
}

void expect_same(const GemmTask& task) {
  const std::vector<double> wanted = by_rows(task), found = by_columns(task);
  ASSERT_EQ(wanted.size(), found.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(wanted[i], found[i], 1e-12) << i;
}

TEST(GemmTask, EveryFormIsPassedInColumns) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      Matrix a(transpose_a ? 7 : 5, transpose_a ? 5 : 7, 1), b(transpose_b ? 3 : 7, transpose_b ? 7 : 3, 2), c(5, 3, 3);
      GemmTask task;
      task.a = whole(a.view());
      task.b = whole(b.view());
      task.c = whole(c.view());
      task.transpose_a = transpose_a;
      task.transpose_b = transpose_b;
      expect_same(task);
      task.accumulate = true;
      task.factor = 0.25F;
      expect_same(task);
    }
  }
}

TEST(GemmTask, PartsOfTensorsKeepTheirStrides) {
  Matrix tokens(11, 6, 1), gradients(11, 4, 2), weights(8, 6, 3);
  GemmTask task;  // an expert's rows 3 .. 7, and C its rows of all experts'
  task.a = rows_of(gradients.view(), 3, 5);
  task.b = rows_of(tokens.view(), 3, 5);
  task.c = rows_of(weights.view(), 4, 4);
  task.transpose_a = true;
  task.accumulate = true;
  expect_same(task);
  Matrix transposed_tokens(6, 11, 4), transposed_gradients(4, 11, 5);
  task.a = columns_of(transposed_gradients.view(), 3, 5);  // the same of transposed tensors
  task.b = columns_of(transposed_tokens.view(), 3, 5);
  task.transpose_a = false;
  task.transpose_b = true;
  expect_same(task);
}

// There are scores of two heads, each of three columns; queries and keys have four.
TEST(GemmTask, HeadsOfABatchAreAdjacent) {
  Matrix q(3, 8, 1), k(3, 8, 2), scores(3, 6, 3);
  GemmTask task;
  task.a = {q.view(), 0, 0, 3, 4};
  task.b = {k.view(), 0, 0, 3, 4};
  task.c = {scores.view(), 0, 0, 3, 3};
  task.transpose_b = true;
  task.batch = 2;
  task.a_next = task.b_next = 4;
  task.c_next = 3;
  expect_same(task);
}

TEST(GemmTask, AlignmentIsWhatAllAddressesHave) {
  alignas(256) static float memory[3 * 64];
  const TensorView view{memory, nullptr, Format::fp32, 3, 64, 3};
  GemmTask task;
  task.a = task.b = task.c = whole(view);
  EXPECT_EQ(shape_of(task).alignment, 256);
  task.b = columns_of(view, 4, 60);
  EXPECT_EQ(shape_of(task).alignment, 16);
  task.b = whole(view);
  task.batch = 2;
  task.c_next = 2;
  EXPECT_EQ(shape_of(task).alignment, 8);
}

TEST(GemmTask, TheLibraryTakesFp8InMultiplesOfSixteenOnly) {
  const auto part = [](Format format, std::int64_t rows, std::int64_t columns) {
    return whole({nullptr, nullptr, format, rows, columns, rows});
  };
  GemmTask task;
  task.transpose_b = true;
  task.a = part(Format::fp8_tile, 128, 256);
  task.b = part(Format::fp8_block, 64, 256);
  task.c = part(Format::bf16, 128, 64);
  EXPECT_TRUE(library_takes(task));
  task.a.columns = task.b.columns = task.a.tensor.columns = task.b.tensor.columns = 250;
  EXPECT_FALSE(library_takes(task));
  task.a = part(Format::bf16, 128, 250);
  EXPECT_FALSE(library_takes(task));  // formats differ
  task.b = part(Format::bf16, 64, 250);
  EXPECT_TRUE(library_takes(task));
}

TEST(GemmTask, PackedFormatsAreNotSupported) {
  GemmTask task;
  task.a.tensor.format = Format::e5m6;
  EXPECT_FALSE(library_takes(task));
  EXPECT_FALSE(own_kernel_takes(task));
  task.a.tensor.format = Format::fp8_tensor;
  EXPECT_TRUE(own_kernel_takes(task));
}

TEST(GemmShare, RowsAreDividedAtTilesAndCoverAll) {
  for (const std::int64_t rows : {0, 5, 128, 300, 4096, 4100}) {
    std::int64_t next = 0;
    for (std::int32_t part = 0; part < 3; ++part) {
      Kernel kernel;
      kernel.part = part;
      kernel.parts = 3;
      const Share own = share_of_rows(rows, kernel);
      EXPECT_EQ(own.begin, next);
      EXPECT_TRUE(own.begin % scale_tile == 0 || own.count == 0);
      next = own.begin + own.count;
    }
    EXPECT_EQ(next, rows);
  }
}

// Each expert's piece is the layout that a GEMM of that expert alone needs, without gaps between them.
TEST(GemmScales, GroupedRowsAreOnePieceEach) {
  const std::vector<std::int32_t> offsets = {0, 3, 3, 10, 11, 11};
  constexpr std::int64_t blocks = 4;
  for (const auto& [first, end] : std::vector<std::pair<std::int32_t, std::int32_t>>{{0, 5}, {2, 5}, {0, 3}}) {
    const RowGroups groups{offsets.data(), first, end};
    const auto begin = static_cast<std::size_t>(first);
    for (auto e = begin; e < static_cast<std::size_t>(end); ++e) {
      for (std::int64_t row = offsets[e]; row < offsets[e + 1]; ++row) {
        for (std::int64_t block = 0; block < blocks; ++block) {
          const std::int64_t piece = (offsets[e] - offsets[begin]) * blocks, height = offsets[e + 1] - offsets[e];
          EXPECT_EQ(grouped_scale_index(groups, row, block, blocks),
                    piece + row_scale_index(row - offsets[e], block, height));
        }
      }
    }
  }
}

TEST(GemmScales, AnElementsScaleIsThatOfItsTileOrOfTheBlockOfItsMatrix) {
  const TensorView tiles{nullptr, nullptr, Format::fp8_tile, 300, 300, 0};
  EXPECT_EQ(scale_index(tiles, 2, 128), 2 * 3 + 1);
  const TensorView experts{nullptr, nullptr, Format::fp8_block, 400, 300, 200};  // two matrices of two rows of blocks
  EXPECT_EQ(scale_index(experts, 199, 299), 1 * 3 + 2);
  EXPECT_EQ(scale_index(experts, 200, 0), 2 * 3);
  EXPECT_EQ(scale_index(experts, 399, 127), 3 * 3);
}

TEST(GemmScales, SpaceIsForTheOrderThatTheLibraryNeeds) {
  const TensorView tiles{nullptr, nullptr, Format::fp8_tile, 300, 640, 0};
  EXPECT_EQ(scale_room(rows_of(tiles, 100, 128)), 640);  // 128 rows of 5 tiles
  const TensorView narrow{nullptr, nullptr, Format::fp8_block, 400, 640, 200};
  EXPECT_EQ(scale_room(rows_of(narrow, 200, 200)), 64);  // 2 rows of 8 blocks, in steps of 64
  const TensorView wide{nullptr, nullptr, Format::fp8_block, 400, 512, 200};
  EXPECT_EQ(scale_room(whole(wide)), 0);  // 4 blocks need no padding
}

TEST(GemmScales, RowsOfExpertsBeginWithTheirBlocks) {
  std::vector<float> scales(64);
  const TensorView experts{nullptr, scales.data(), Format::fp8_block, 400, 512, 200};
  EXPECT_EQ(stored_scales(rows_of(experts, 200, 200)) - scales.data(), 2 * 4);
  const TensorView tiles{nullptr, scales.data(), Format::fp8_tile, 16, 512, 0};
  EXPECT_EQ(stored_scales(rows_of(tiles, 3, 5)) - scales.data(), 3 * 4);
}

}  // namespace
}  // namespace plumbline::real::cuda
