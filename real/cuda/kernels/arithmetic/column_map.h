// The source of each column of a rearranged tensor, as inline functions for the host and the device compiler.
#pragma once

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

struct ColumnSource {
  int part = 0;             // which of the inputs
  std::int64_t column = 0;  // of that input
  std::int64_t run = 0;     // consecutive columns from this one on that are contiguous in the input
};

// A repeated pair of column ranges: `first_width` columns of part 0, then `second_width` of part 1, for each head. Head
// h reads each part from h * stride + offset on; a stride of 0 gives every head the same columns.
struct HeadColumns {
  std::int64_t first_width = 0, first_stride = 0, first_offset = 0;
  std::int64_t second_width = 0, second_stride = 0, second_offset = 0;

  PLUMBLINE_HOST_DEVICE ColumnSource operator()(std::int64_t column) const {
    const auto width = static_cast<std::uint32_t>(first_width + second_width);
    const auto head =
        static_cast<std::uint32_t>(column) / width;  // 32 bits: a 64-bit division takes several times as long
    const std::int64_t within = column - static_cast<std::int64_t>(head) * width;
    if (within < first_width) return {0, head * first_stride + first_offset + within, first_width - within};
    const std::int64_t beyond = within - first_width;
    return {1, head * second_stride + second_offset + beyond, second_width - beyond};
  }
};

// Parts that are concatenated along columns.
constexpr int most_parts = 8;
struct SideBySide {
  std::int64_t width[most_parts] = {};
  int count = 0;

  PLUMBLINE_HOST_DEVICE ColumnSource operator()(std::int64_t column) const {
    int part = 0;
    for (; part + 1 < count && column >= width[part]; ++part) column -= width[part];
    return {part, column, width[part] - column};
  }
};

}  // namespace plumbline::real::cuda
