// Sums of what the ranks computed for a token, in the order of ranks.
#include <cuda_fp16.h>

#include "real/cuda/kernels/all_to_all/reserved_sm.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int vec = 8;  // elements that a lane takes at a time

// Values as they lie in memory, so that many loads are in flight before the first is converted.
template <Format format>
struct Raw {
  static constexpr int vectors = format == Format::fp32 ? 2 : 1;
  uint4 held[vectors];
};

template <Format format>
__device__ Raw<format> load_raw(const void* base, std::int64_t element) {
  Raw<format> raw;
  const auto* from =
      reinterpret_cast<const uint4*>(static_cast<const char*>(base) + element * (format == Format::fp32 ? 4 : 2));
#pragma unroll
  for (int i = 0; i < Raw<format>::vectors; ++i) raw.held[i] = from[i];
  return raw;
}

template <Format format>
__device__ void add(float* sum, const Raw<format>& raw) {
  if constexpr (format == Format::fp32) {
    float values[vec];
    memcpy(values, raw.held, sizeof values);
#pragma unroll
    for (int i = 0; i < vec; ++i) sum[i] += values[i];
  } else {
    std::uint16_t values[vec];
    memcpy(values, raw.held, sizeof values);
#pragma unroll
    for (int i = 0; i < vec; ++i)
      sum[i] += format == Format::bf16 ? bf16_to_float(values[i]) : __half2float(__ushort_as_half(values[i]));
  }
}

__device__ void add(float* sum, const TensorView& x, std::int64_t element) {
  if (x.format == Format::fp32)
    add(sum, load_raw<Format::fp32>(x.data, element));
  else if (x.format == Format::bf16)
    add(sum, load_raw<Format::bf16>(x.data, element));
  else
    add(sum, load_raw<Format::fp16>(x.data, element));
}

__device__ void store(void* base, Format format, std::int64_t element, const float* sum) {
  if (format == Format::fp32) {
    float* to = static_cast<float*>(base) + element;
    *reinterpret_cast<float4*>(to) = make_float4(sum[0], sum[1], sum[2], sum[3]);
    *reinterpret_cast<float4*>(to + 4) = make_float4(sum[4], sum[5], sum[6], sum[7]);
    return;
  }
  std::uint16_t packed[vec];
#pragma unroll
  for (int i = 0; i < vec; ++i)
    packed[i] = format == Format::bf16 ? float_to_bf16(sum[i]) : __half_as_ushort(__float2half_rn(sum[i]));
  uint4 raw;
  memcpy(&raw, packed, sizeof raw);
  *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(base) + element) = raw;
}

// The slots of a token that lie in [begin, end).
struct Slots {
  const std::int32_t* of_token;
  std::int32_t choices;
  std::int64_t begin, end;
  // Returns -1 for no slot.
  __device__ std::int64_t at(std::int32_t i) const {
    const std::int64_t slot = i < choices ? of_token[i] : -1;
    return slot >= begin && slot < end ? slot : -1;
  }
};

template <Format format>
__device__ void add_slots(float* sum, const TensorView& rows, const Slots& slots, std::int64_t column) {
  constexpr int in_flight = 8;
  for (std::int32_t first = 0; first < slots.choices; first += in_flight) {
    Raw<format> raw[in_flight];
    std::int64_t slot[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      slot[i] = slots.at(first + i);
      if (slot[i] >= 0) raw[i] = load_raw<format>(rows.data, slot[i] * rows.columns + column);
    }
#pragma unroll
    for (int i = 0; i < in_flight; ++i)
      if (slot[i] >= 0) add(sum, raw[i]);
  }
}

__device__ float small_sum(const RowSum& s, const Slots& slots, int choice) {
  float sum = 0;
  for (std::int32_t i = 0; i < s.choices; ++i)
    if (const std::int64_t slot = slots.at(i); slot >= 0) sum += s.small_rows[slot * s.choices + choice];
  return sum;
}

template <Format format>
__device__ void sum_token(const RowSum& s, std::int64_t token, int lane) {
  const Slots slots{s.slots + token * s.choices, s.choices, 0, INT64_MAX};
  for (std::int64_t column = lane * vec; column < s.out.columns; column += warp_size * vec) {
    float sum[vec] = {};
    add_slots<format>(sum, s.rows, slots, column);
    for (int i = 0; i < s.addends_count; ++i) add(sum, s.addends[i], token * s.out.columns + column);
    store(s.out.data, s.out.format, token * s.out.columns + column, sum);
  }
  if (s.small_rows == nullptr) return;
  for (int i = lane; i < s.choices; i += warp_size) s.small_out[token * s.choices + i] = small_sum(s, slots, i);
}

// Writes a node's part of a token's sum to host memory.
template <Format format>
__device__ void send_part(const RowSum& s, std::int64_t index, int lane) {
  const SendBuffer& d = s.send_buffer;
  const std::int64_t row = listed(d, index);
  const std::int32_t node = bucket_of_row(d.first, d.nodes, row);
  const Slots slots{s.slots + static_cast<std::int64_t>(d.tokens[row]) * s.choices, s.choices,
                    s.member_first[node * s.node_members], s.member_first[(node + 1) * s.node_members]};
  char* record = static_cast<char*>(d.planes[0].to) + record_of(d, index) * d.planes[0].to_stride;
  for (std::int64_t column = lane * vec; column < s.out.columns; column += warp_size * vec) {
    float sum[vec] = {};
    add_slots<format>(sum, s.rows, slots, column);
    store(record, format, column, sum);
  }
  if (s.small_rows == nullptr) return;
  auto* small = reinterpret_cast<float*>(record + d.planes[0].bytes);
  for (int i = lane; i < s.choices; i += warp_size) small[i] = small_sum(s, slots, i);
}

template <Format format>
__global__ void __launch_bounds__(reserved_threads) sum_rows_kernel(RowSum s) {
  take_turns(
      s.out.rows, s.send_buffer, [&](std::int64_t token, int lane) { sum_token<format>(s, token, lane); },
      [&](std::int64_t index, int lane) { send_part<format>(s, index, lane); });
}

bool is_supported(const RowSum& s) {
  if (s.addends_count > largest_addends || s.out.columns % vec != 0) return false;
  bool known = is_float(s.rows.format) && is_float(s.out.format);
  for (int i = 0; i < s.addends_count; ++i) known = known && is_float(s.addends[i].format);
  return known;
}

}  // namespace

cudaError_t sum_rows(const RowSum& sum, const Blocks& blocks, cudaStream_t stream) {
  if (!is_supported(sum)) return cudaErrorInvalidValue;
  if (sum.out.rows == 0) return cudaSuccess;
  if (sum.rows.format == Format::fp32) return launch_owning(sum_rows_kernel<Format::fp32>, sum, blocks, stream);
  if (sum.rows.format == Format::bf16) return launch_owning(sum_rows_kernel<Format::bf16>, sum, blocks, stream);
  return launch_owning(sum_rows_kernel<Format::fp16>, sum, blocks, stream);
}

}  // namespace plumbline::real::cuda
