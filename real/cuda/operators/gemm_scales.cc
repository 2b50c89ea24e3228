#include "real/cuda/operators/gemm_scales.h"

#include "real/cuda/kernels/permutation/scale_layout.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t scratch_step = 64;  // floats: 256 bytes, the alignment of the next region of scratch memory

std::int64_t matrix_height(const TensorView& tensor) {
  return tensor.matrix_rows > 0 ? tensor.matrix_rows : tensor.rows;
}

// Returns the rows of blocks of a part that begins and ends at a block or a matrix.
std::int64_t block_rows(const TensorView& tensor, std::int64_t rows) {
  const std::int64_t height = matrix_height(tensor);
  return rows / height * tiles_of(height) + tiles_of(rows % height);
}

bool stays(const TensorView& tensor) { return square_row(tensor) == tiles_of(tensor.columns); }

}  // namespace

std::int64_t square_row(const TensorView& tensor) { return padded_block_count(tensor.columns); }

const float* stored_scales(const MatrixPart& part) {
  const std::int64_t blocks = tiles_of(part.tensor.columns);
  switch (part.tensor.format) {
    case Format::fp8_tile:
      return part.tensor.scales + part.row * blocks;
    case Format::fp8_block:
      return part.tensor.scales + block_rows(part.tensor, part.row) * blocks;
    default:
      return part.tensor.scales;
  }
}

std::int64_t scale_room(const MatrixPart& part) {
  std::int64_t floats = 0;
  if (part.tensor.format == Format::fp8_tile) floats = part.rows * tiles_of(part.tensor.columns);
  if (part.tensor.format == Format::fp8_block && !stays(part.tensor))
    floats = block_rows(part.tensor, part.rows) * square_row(part.tensor);
  return (floats + scratch_step - 1) / scratch_step * scratch_step;
}

Status lay_out_scales(const MatrixPart& part, float* scratch, cudaStream_t stream, const float*& scales) {
  const float* const stored = stored_scales(part);
  const std::int64_t blocks = tiles_of(part.tensor.columns);
  scales = scale_room(part) > 0 ? scratch : stored;
  if (scales == stored) return {};
  if (part.tensor.format == Format::fp8_tile)
    return outcome(lay_out_rows(stored, scratch, part.rows, blocks, stream), "laying out scales");
  return outcome(lay_out_squares(stored, scratch, block_rows(part.tensor, part.rows), blocks, stream),
                 "laying out scales");
}

}  // namespace plumbline::real::cuda
