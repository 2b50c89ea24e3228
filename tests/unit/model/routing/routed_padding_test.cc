#include "tests/support/routed_padding.h"

#include <gtest/gtest.h>

namespace plumbline::tests {
namespace {

using model::Tensor;

const Tensor kRows{.name = "rows", .shape = {{5, model::Extent::rows}, {2}}};
const Tensor kTransposed{.name = "rows_t", .shape = {{2}, {5, model::Extent::rows}}};
const Tensor kMap{.name = "row_map", .shape = {{5, model::Extent::rows}}, .type = model::DataType::int32};
const Tensor kOffsets{.name = "expert_offsets", .shape = {{4}}, .type = model::DataType::int32};

Matrix column(std::initializer_list<double> values) {
  Matrix result(static_cast<Index>(values.size()), 1);
  Index i = 0;
  for (const double value : values) result(i++) = value;
  return result;
}

// Experts with 3, 0 and 2 rows, in multiples of 4.
const RoutedPadding kPadding(column({0, 3, 3, 5}), 4);

TEST(RoutedPadding, EveryExpertBeginsAtAMultiple) {
  EXPECT_EQ(kPadding.padded(kOffsets, column({0, 3, 3, 5})), column({0, 4, 4, 8}));
  EXPECT_EQ(kPadding.padded(kMap, column({7, 8, 9, 1, 2})), column({7, 8, 9, -1, 1, 2, -1, -1}));
}

TEST(RoutedPadding, RowsComeBackFromEitherDimension) {
  const Matrix rows = Matrix::Random(5, 2);
  const Matrix padded = kPadding.padded(kRows, rows);
  EXPECT_EQ(padded.rows(), 8);
  EXPECT_EQ(padded.row(3), Matrix::Zero(1, 2));
  EXPECT_EQ(padded.row(4), rows.row(3));
  EXPECT_EQ(kPadding.stripped(kRows, padded), rows);
  EXPECT_EQ(kPadding.padded(kTransposed, rows.transpose()), padded.transpose());
  EXPECT_EQ(kPadding.stripped(kTransposed, padded.transpose()), rows.transpose());
  EXPECT_EQ(kPadding.stripped(kOffsets, column({0, 4, 4, 8})), column({0, 3, 3, 5}));
}

TEST(RoutedPadding, OtherPaddingAndOtherShapesAreSeen) {
  Matrix padded = kPadding.padded(kRows, Matrix::Random(5, 2));
  padded(3, 1) = 1;
  EXPECT_EQ(kPadding.stripped(kRows, padded).size(), 0);
  EXPECT_EQ(kPadding.stripped(kRows, Matrix::Zero(7, 2)).size(), 0);
  EXPECT_EQ(kPadding.stripped(kOffsets, column({0, 4, 4, 7})).size(), 0);
}

TEST(RoutedPadding, TensorsWithoutRoutedRowsStay) {
  const Tensor other{.name = "x", .shape = {{3}, {2}}};
  const Matrix value = Matrix::Random(3, 2);
  EXPECT_EQ(kPadding.padded(other, value), value);
  EXPECT_EQ(RoutedPadding().stripped(other, value), value);
}

}  // namespace
}  // namespace plumbline::tests
