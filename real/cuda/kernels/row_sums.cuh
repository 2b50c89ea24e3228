// Kernels in which a team passes once through a row, and its sum gives one number.
#pragma once

#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/row_teams.cuh"

namespace plumbline::real::cuda {

// Calls body.vector(row, column) for every vector of the row, which returns its part of the sum, then body.finish(row,
// sum).
template <class Body, bool kWarp>
__global__ void row_sum_kernel(const Body body, std::int64_t rows, std::int64_t columns) {
  Team<kWarp> team;
  for (std::int64_t row = team.first(); row < rows; row += team.step()) {
    float sum = 0.0f;
    for (int v = 0; team.column(v) / scale_tile * scale_tile < columns; ++v) sum += body.vector(row, team.column(v));
    sum = team.sum(sum);
    if (team.leads()) body.finish(row, sum);
  }
}

template <class Body>
cudaError_t launch_row_sums(std::int64_t rows, std::int64_t columns, const Body& body, cudaStream_t stream) {
  if (rows * columns == 0) return cudaSuccess;
  constexpr int block_threads = 256;
  constexpr int warps = block_threads / warp_size;
  if (columns <= widest_row_of_warp) {
    const auto blocks = static_cast<unsigned>((rows + warps - 1) / warps);
    return launch(row_sum_kernel<Body, true>, {blocks, block_threads}, stream, body, rows, columns);
  }
  return launch(row_sum_kernel<Body, false>, {static_cast<unsigned>(rows), block_threads}, stream, body, rows, columns);
}

}  // namespace plumbline::real::cuda
