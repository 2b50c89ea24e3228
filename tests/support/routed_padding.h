// Rows of experts as a GPU holds them in FP8: each expert's rows begin at a multiple of 128, so that no scale along the
// rows is shared by two experts. The rows between are zero, and -1 in the row map.
#pragma once

#include <vector>

#include "tests/support/interpreter/interpreter.h"

namespace plumbline::tests {

class RoutedPadding {
 public:
  RoutedPadding() = default;  // for graphs without routing
  // `offsets` [experts + 1] are those without padding.
  RoutedPadding(const Matrix& offsets, Index multiple);

  // Returns a tensor's value with the padding, in whichever dimension the rows are; other tensors are unchanged.
  Matrix padded(const model::Tensor& tensor, const Matrix& value) const;
  // Returns the value without padding, or an empty matrix where the shape or the padding is not that of padded().
  Matrix stripped(const model::Tensor& tensor, const Matrix& value) const;

 private:
  std::vector<Index> place_;  // place of each row
  Index rows_ = 0;            // number of rows with padding
  Matrix offsets_, padded_offsets_;
};

}  // namespace plumbline::tests
