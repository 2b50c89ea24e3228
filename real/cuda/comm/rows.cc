#include "real/cuda/comm/rows.h"

namespace plumbline::real::cuda {

namespace {

// Larger than what is on its way at any moment, and than the caches that the host's processor keeps for devices.
constexpr std::int64_t ring_bytes = std::int64_t{256} << 20;
constexpr std::int64_t record_alignment = 16;
constexpr double picoseconds_per_nanosecond = 1000;  // a GB/s is a byte per nanosecond

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + record_alignment - 1) / record_alignment * record_alignment;
}

}  // namespace

Status row_bytes(const TensorView& x, RowBytes& bytes) {
  if (x.format == Format::fp8_block || x.format == Format::fp8_tensor)
    return {"rows of a tensor with scales of blocks, or one for all, are not exchanged"};
  bytes = {data_bytes(x.format, x.columns), scale_count(x.format, 1, x.columns, 0) * 4};
  if (bytes.values % 4 != 0) return {"a row of " + std::to_string(x.columns) + " columns is no whole number of words"};
  return {};
}

Status add_planes(const TensorView& from, const TensorView& to, RowCopy& copy) {
  if (from.format != to.format || from.columns != to.columns) return {"an exchange between tensors of two forms"};
  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(from, bytes));
  copy.planes[copy.planes_count++] = {from.data, to.data, bytes.values, bytes.values};
  if (bytes.scales > 0) copy.planes[copy.planes_count++] = {from.scales, to.scales, bytes.scales, bytes.scales};
  return {};
}

Status Ring::take(std::int64_t record_bytes, Departures& departures) {
  if (!open_) PLUMBLINE_TRY(memory_.allocate(ring_bytes));
  open_ = true;
  departures.ring_rows = ring_bytes / record_bytes;
  departures.ring_first = ring_place((at_ + record_bytes - 1) / record_bytes, 0, departures.ring_rows);
  at_ = ring_place(departures.ring_first, departures.rows, departures.ring_rows) * record_bytes;
  std::int64_t offset = 0;
  for (int i = 0; i < departures.planes_count; ++i) {
    departures.planes[i].to = memory_.as<char>() + offset;
    departures.planes[i].to_stride = record_bytes;
    offset += aligned(departures.planes[i].bytes);
  }
  return {};
}

Status set_departures(const ExchangeMap& map, const Wire& wire, std::initializer_list<Plane> planes, Ring& ring,
                      Departures& departures) {
  const auto own = static_cast<std::size_t>(own_node(map.nodes.buckets));
  departures = {};
  if (wire.gbps <= 0) return {};
  departures.first = map.nodes.list.first;
  departures.tokens = map.nodes.list.tokens;
  departures.nodes = bucket_count(map.nodes.buckets);
  departures.hole = map.nodes.first[own];
  departures.hole_rows = map.nodes.rows_of(own);
  departures.rows = map.nodes.rows() - departures.hole_rows;
  if (departures.rows == 0) return {};
  std::int64_t record_bytes = 0;
  for (const Plane& plane : planes) {
    if (plane.bytes == 0) continue;
    if (departures.planes_count == largest_planes) return {"more tensors than an exchange moves together"};
    departures.planes[departures.planes_count++] = plane;
    record_bytes += aligned(plane.bytes);
  }
  const auto counted = static_cast<double>(wire.token_bytes > 0 ? wire.token_bytes : record_bytes);
  departures.picoseconds_per_row = static_cast<std::int64_t>(counted * picoseconds_per_nanosecond / wire.gbps);
  return ring.take(record_bytes, departures);
}

}  // namespace plumbline::real::cuda
