// Eight neighbouring elements of a row at a time, in any format. Sixteen lanes hold a tile of 128 columns, the unit
// that has a scale of its own: kernels give each such half warp a tile, so that formats with scales cost one shuffle
// more than others and no kernel needs to know formats.
#pragma once

#include "real/cuda/arithmetic.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

constexpr int tile_lanes = 16;
constexpr int tile_vector = 8;

struct Eight {
  float v[tile_vector];
};

// Elements column .. column + 7 of a row. `column` is a multiple of 8; columns of the tensor are too.
__device__ Eight load_eight(const TensorView& x, std::int64_t row, std::int64_t column);

// All sixteen lanes of a half warp call it together with the columns of one tile; those beyond the tensor's columns
// call it too, and store nothing.
__device__ void store_eight(const TensorView& y, std::int64_t row, std::int64_t column, Eight values);

}  // namespace plumbline::real::cuda
