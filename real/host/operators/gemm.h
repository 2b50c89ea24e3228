// The GEMM that all operators share. It works on parts of row-major matrices, transposed or not.
#pragma once

#include "real/host/operators/call.h"

namespace plumbline::real::host {

using Part = Eigen::Map<Matrix, 0, Eigen::OuterStride<>>;
using ConstPart = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;

inline ConstPart part(const HostBuffer& buffer, Index row, Index column, Index rows, Index columns) {
  return {buffer.data() + row * buffer.columns() + column, rows, columns, Eigen::OuterStride<>(buffer.columns())};
}
inline Part part(HostBuffer& buffer, Index row, Index column, Index rows, Index columns) {
  return {buffer.data() + row * buffer.columns() + column, rows, columns, Eigen::OuterStride<>(buffer.columns())};
}

struct Operand {
  ConstPart matrix;
  bool transposed = false;
};

struct Gemm {
  float scale = 1;
  bool accumulate = false;                               // C += instead of C =
  model::DataType accumulation = model::DataType::fp32;  // fp16: sums are rounded after every multiply-add
};

// Computes C = scale op(A) op(B) on the calling thread.
void multiply(const Operand& a, const Operand& b, Part c, const Gemm& gemm = {});

// Rows of an operator's output. own_rows() returns those of this call's Kernel::part.
struct Range {
  Index begin = 0, end = 0;
};
Range own_rows(const Call& call);

}  // namespace plumbline::real::host
