// Rows of experts as a GPU holds them in FP8: each expert's begin at a multiple of 128, so that no scale along the rows
// serves two experts. What is between is zero, and -1 in the row map.
#pragma once

#include <vector>

#include "tests/support/interpreter/interpreter.h"

namespace plumbline::tests {

class RoutedPadding {
 public:
  RoutedPadding() = default;  // of graphs without routing
  // `offsets` [experts + 1] without padding.
  RoutedPadding(const Matrix& offsets, Index multiple);

  // A tensor's value with the padding, in whichever dimension the rows are; others stay as they are.
  Matrix padded(const model::Tensor& tensor, const Matrix& value) const;
  // Without it. An empty matrix where the shape is not that of padded(), or the padding not what it should be.
  Matrix stripped(const model::Tensor& tensor, const Matrix& value) const;

 private:
  std::vector<Index> place_;  // of each row
  Index rows_ = 0;            // with padding
  Matrix offsets_, padded_offsets_;
};

}  // namespace plumbline::tests
