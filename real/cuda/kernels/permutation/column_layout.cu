#include "real/cuda/kernels/elementwise.cuh"
#include "real/cuda/kernels/permutation/permutation.h"

namespace plumbline::real::cuda {
namespace {

// Gathers elements one by one if a vector of the output has several sources.
template <class View, class Map>
__device__ Vec8 gather(const TensorView* parts, const Map& map, std::int64_t columns, std::int64_t row,
                       std::int64_t column) {
  const ColumnSource source = map(column);
  if (source.run >= tile_vector) return load_vec8(View(parts[source.part]), row, source.column);
  Vec8 values{};
  for (int i = 0; i < tile_vector; ++i) {
    if (column + i >= columns) continue;
    const ColumnSource single = map(column + i);
    values.v[i] = load_one(parts[single.part], row, single.column);
  }
  return values;
}

template <class View, class Map, int kParts>
struct Gather {
  TensorView parts[kParts];
  Map map;
  TensorView y;
  __device__ void operator()(std::int64_t row, std::int64_t column) const {
    const bool within = column < y.columns;  // the map has no columns beyond
    const Vec8 values = within ? gather<View>(parts, map, y.columns, row, column) : Vec8{};
    store_vec8(View(y), row, column, values);
  }
};

template <class View>
struct SumHeads {
  TensorView x;
  std::int64_t heads, stride, offset;
  TensorView y;
  __device__ void operator()(std::int64_t row, std::int64_t column) const {
    const View from(x);
    Vec8 sum{};
    if (column < y.columns) {
#pragma unroll 4
      for (std::int64_t head = 0; head < heads; ++head) {
        const Vec8 values = load_vec8(from, row, head * stride + offset + column);
#pragma unroll
        for (int i = 0; i < tile_vector; ++i) sum.v[i] += values.v[i];
      }
    }
    store_vec8(View(y), row, column, sum);
  }
};

template <class... Numbers>
bool whole_vectors(Numbers... numbers) {
  return ((numbers % tile_vector == 0) && ...);
}

}  // namespace

cudaError_t take_columns(const TensorView& first, const TensorView& second, const HeadColumns& map, const TensorView& y,
                         cudaStream_t stream) {
  const bool whole = whole_vectors(map.first_width, map.first_stride, map.first_offset, map.second_width,
                                   map.second_stride, map.second_offset);
  if (whole && all_bf16(first, second, y))
    return launch_tiles(y, Gather<Bf16View, HeadColumns, 2>{{first, second}, map, y}, stream);
  return launch_tiles(y, Gather<TensorView, HeadColumns, 2>{{first, second}, map, y}, stream);
}

cudaError_t concatenate(const Parts& parts, const TensorView& y, cudaStream_t stream) {
  Gather<TensorView, SideBySide, most_parts> any{{}, {}, y};
  Gather<Bf16View, SideBySide, most_parts> bf16{{}, {}, y};
  bool aligned = all_bf16(y);
  any.map.count = parts.count;
  for (int i = 0; i < parts.count; ++i) {
    any.parts[i] = parts.view[i];
    bf16.parts[i] = parts.view[i];
    any.map.width[i] = parts.view[i].columns;
    aligned = aligned && all_bf16(parts.view[i]);
  }
  bf16.map = any.map;
  return aligned ? launch_tiles(y, bf16, stream) : launch_tiles(y, any, stream);
}

cudaError_t sum_heads(const TensorView& x, std::int64_t heads, std::int64_t stride, std::int64_t offset,
                      const TensorView& y, cudaStream_t stream) {
  if (whole_vectors(stride, offset) && all_bf16(x, y))
    return launch_tiles(y, SumHeads<Bf16View>{x, heads, stride, offset, y}, stream);
  return launch_tiles(y, SumHeads<TensorView>{x, heads, stride, offset, y}, stream);
}

}  // namespace plumbline::real::cuda
