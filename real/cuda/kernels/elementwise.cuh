// Kernels that compute each vector of their output from the same row of their inputs. Each half warp has a tile of 128
// columns; adjacent half warps have adjacent tiles.
#pragma once

#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/row_teams.cuh"

namespace plumbline::real::cuda {

constexpr int tiles_threads = 256;

// Calls body(row, column) for every vector of `tiles` tiles, by all lanes of a half warp together. Tile numbers have 32
// bits, because they are divided often.
template <class Body>
__global__ void __launch_bounds__(tiles_threads)
    tiles_kernel(const Body body, std::uint32_t tiles_per_row, std::uint32_t tiles) {
  constexpr std::uint32_t per_block = tiles_threads / tile_lanes;
  const std::uint32_t lane = threadIdx.x % tile_lanes;
  for (std::uint32_t tile = blockIdx.x * per_block + threadIdx.x / tile_lanes; tile < tiles;
       tile += gridDim.x * per_block) {
    const std::uint32_t row = tile / tiles_per_row;
    body(row, static_cast<std::int64_t>(tile - row * tiles_per_row) * scale_tile + lane * tile_vector);
  }
}

// Launches `body` over the rows and columns of the output.
template <class Body>
cudaError_t launch_tiles(const TensorView& y, const Body& body, cudaStream_t stream) {
  const std::int64_t tiles = y.rows * tiles_of(y.columns);
  if (tiles == 0) return cudaSuccess;
  if (tiles > 0x7fffffff) return cudaErrorInvalidValue;
  constexpr std::int64_t per_block = tiles_threads / tile_lanes;
  const auto blocks = static_cast<unsigned>((tiles + per_block - 1) / per_block);
  return launch(tiles_kernel<Body>, {blocks, tiles_threads}, stream, body,
                static_cast<std::uint32_t>(tiles_of(y.columns)), static_cast<std::uint32_t>(tiles));
}

// Returns all elements as one row, if the format has no scales.
inline TensorView flat(const TensorView& x) { return x.scales == nullptr ? as_row(x) : x; }

// Returns whether operands of the same shape may be taken as flat.
template <class... Views>
bool all_flat(const Views&... views) {
  return ((views.scales == nullptr) && ...);
}

}  // namespace plumbline::real::cuda
