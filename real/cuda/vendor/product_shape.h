// A matrix product as its operands lie, and as a library that thinks in columns is told of it.
//
// All matrices are row-major: D[m,n] = sum over k of X[.,.] W[.,.] (+ D when accumulating). A row-major [r,c] matrix is
// a column-major c x r one; so W becomes the library's A, X its B, and its D is n x m.
#pragma once

#include <library_types.h>

#include <cstdint>

namespace plumbline::real::cuda {

enum class ScaleMode { none, tensor, row_blocks, square_blocks };  // the last two: 1 x 128 and 128 x 128

// The extent that routing decides, anew for every micro-batch.
enum class Routed { none, rows, depth };

struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  cudaDataType_t operand = CUDA_R_16BF, result = CUDA_R_16BF;
  bool x_k_contiguous = true;  // X is [m,k]; else [k,m]
  bool w_k_contiguous = true;  // W is [n,k]; else [k,n]
  bool accumulate = false;     // D += product
  bool fast_accumulation = false;
  bool tf32 = false;    // FP32 operands are multiplied with 10 bits of mantissa
  bool bias = false;    // a number per column of D, in D's format, is added
  int target_sms = 0;   // 0: all of the device
  int alignment = 256;  // bytes, of every operand that will be given to run
  ScaleMode x_scale = ScaleMode::none, w_scale = ScaleMode::none;
  // Elements from one row of a matrix to the next; 0: rows lie one after the other.
  std::int64_t x_stride = 0, w_stride = 0, d_stride = 0;
  // So many products of the same shape, and the elements from the matrices of one to those of the next.
  std::int64_t batch = 1, x_batch_stride = 0, w_batch_stride = 0, d_batch_stride = 0;
  Routed routed = Routed::none;
};

// Rows of the tiles that libraries cut products into: between two multiples the best algorithm hardly changes.
constexpr std::int64_t routed_step = 128;

// The product whose algorithm serves all that differ by routing alone: the routed extent is rounded up, so that no
// workspace is too small, and where matrices have as many columns as rows were routed, theirs is rounded up too. Those
// that are aligned otherwise stand for themselves.
inline ProductShape usual_shape(ProductShape s) {
  const auto rounded = [](std::int64_t extent) { return (extent + routed_step - 1) / routed_step * routed_step; };
  const auto packed = [](std::int64_t stride) { return stride % routed_step == 0 ? 0 : stride; };
  if (s.routed == Routed::rows) s.m = rounded(s.m);
  if (s.routed != Routed::depth) return s;
  s.k = rounded(s.k);
  if (s.x_k_contiguous) s.x_stride = packed(s.x_stride);
  if (s.w_k_contiguous) s.w_stride = packed(s.w_stride);
  return s;
}

inline ProductShape exact_shape(ProductShape s) {
  s.routed = Routed::none;
  return s;
}

struct ColumnMajor {
  std::int64_t rows = 0, columns = 0, leading = 0;  // elements from one column to the next
  std::int64_t batch_stride = 0;
  bool transposed = false;  // the product takes it so
};
struct ColumnMajorProduct {
  ColumnMajor a, b, d;  // D = op(A) op(B)
};

inline ColumnMajorProduct column_major(const ProductShape& s) {
  const auto turned = [](std::int64_t rows, std::int64_t columns, std::int64_t stride, std::int64_t batch_stride) {
    return ColumnMajor{columns, rows, stride > 0 ? stride : columns, batch_stride, false};
  };
  ColumnMajorProduct product;
  product.a = s.w_k_contiguous ? turned(s.n, s.k, s.w_stride, s.w_batch_stride)
                               : turned(s.k, s.n, s.w_stride, s.w_batch_stride);
  product.b = s.x_k_contiguous ? turned(s.m, s.k, s.x_stride, s.x_batch_stride)
                               : turned(s.k, s.m, s.x_stride, s.x_batch_stride);
  product.d = turned(s.m, s.n, s.d_stride, s.d_batch_stride);
  product.a.transposed = s.w_k_contiguous;  // W^T is wanted as n x k
  product.b.transposed = !s.x_k_contiguous;
  return product;
}

}  // namespace plumbline::real::cuda
