// A part of a row-major tensor, as GEMMs and the layout of their scales take it. Plain data.
#pragma once

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

struct MatrixPart {
  TensorView tensor;
  std::int64_t row = 0, column = 0;    // where it begins
  std::int64_t rows = 0, columns = 0;  // its extent

  void* data() const {
    return static_cast<char*>(tensor.data) + data_bytes(tensor.format, row * tensor.columns + column);
  }
};

inline MatrixPart whole(const TensorView& tensor) { return {tensor, 0, 0, tensor.rows, tensor.columns}; }
inline MatrixPart rows_of(const TensorView& tensor, std::int64_t row, std::int64_t rows) {
  return {tensor, row, 0, rows, tensor.columns};
}
inline MatrixPart columns_of(const TensorView& tensor, std::int64_t column, std::int64_t columns) {
  return {tensor, 0, column, tensor.rows, columns};
}

}  // namespace plumbline::real::cuda
