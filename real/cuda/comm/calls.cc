#include "real/cuda/comm/calls.h"

#include <string>

namespace plumbline::real::cuda {
namespace {

const model::DispatchAttributes& attributes_of(const Kernel& kernel) {
  return std::get<model::DispatchAttributes>(kernel.op->attributes);
}

// Larger than the data in flight at any moment, and than the host processor's caches for device writes.
constexpr std::int64_t sink_bytes = std::int64_t{256} << 20;
constexpr std::int64_t record_alignment = 16;
constexpr double picoseconds_per_nanosecond = 1000;  // a GB/s is a byte per nanosecond

std::int64_t aligned_record(std::int64_t bytes) {
  return (bytes + record_alignment - 1) / record_alignment * record_alignment;
}

}  // namespace

ExpertHomes homes_of(const Group& group, const Kernel& kernel) {
  const model::DispatchAttributes& attributes = attributes_of(kernel);
  return {static_cast<std::int32_t>(attributes.experts), static_cast<std::int32_t>(attributes.experts_per_rank),
          group.size(), group.position};
}

std::int64_t token_bytes_of(const Kernel& kernel) { return attributes_of(kernel).token_bytes; }

Status find_layout(const Kernel& kernel, std::size_t indices, const CudaBuffer* received,
                   std::shared_ptr<const DispatchLayout>& layout) {
  layout = in(kernel, indices).dispatch_layout;
  if (layout == nullptr) return {kernel.op->name + " runs before the dispatch of its tokens"};
  if (received == nullptr || received->rows() == layout->received_rows) return {};
  return {kernel.op->name + ": " + std::to_string(received->rows()) + " rows, where " +
          std::to_string(layout->received_rows) + " were received"};
}

Status receive(const Kernel& kernel, const std::shared_ptr<DispatchLayout>& layout,
               std::vector<std::int64_t> rows_per_expert) {
  for (std::size_t i = 0; i < kernel.writes.size(); ++i) {
    PLUMBLINE_TRY(out(kernel, i).resize(layout->received_rows));
    out(kernel, i).mark_changed();
  }
  out(kernel, 1).known = std::move(rows_per_expert);
  in(kernel, 1).dispatch_layout = layout;
  return {};
}

RouteTask task_of(const DispatchLayout& layout, const CudaBuffer& indices) {
  return {indices.data<const std::int32_t>(), layout.tokens, layout.choices, layout.members.buckets};
}

Status make_sum(const Kernel& kernel, const DispatchLayout& layout, const TensorView& rows, const float* small,
                RowSum& sum) {
  for (std::size_t i = 0; i < kernel.writes.size(); ++i) {
    PLUMBLINE_TRY(out(kernel, i).resize(layout.tokens));
    out(kernel, i).mark_changed();
  }
  const auto has_floats = [](Format format) {
    return format == Format::fp32 || format == Format::bf16 || format == Format::fp16;
  };
  if (!has_floats(rows.format) || rows.columns != out(kernel, 0).columns() || rows.columns % 8 != 0)
    return {kernel.op->name + " adds rows of FP32, BF16 or FP16, of a multiple of 8 columns, in their own width"};
  sum.rows = rows;
  sum.out = out(kernel, 0).view();
  sum.slots = layout.members.list.slots;
  sum.choices = layout.choices;
  sum.member_first = layout.members.list.first;
  sum.node_members = layout.members.buckets.node_members;
  if (small != nullptr) {
    sum.small_rows = small;
    sum.small_out = out(kernel, 1).data<float>();
    return {};
  }
  constexpr std::size_t first_addend = 2;
  for (std::size_t i = first_addend; i < kernel.reads.size(); ++i) {
    if (sum.addends_count == largest_addends) return {kernel.op->name + " adds more tensors than the kernel takes"};
    sum.addends[sum.addends_count++] = in(kernel, i).view();
  }
  return {};
}

Status row_bytes(const TensorView& x, RowBytes& bytes) {
  if (x.format == Format::fp8_block || x.format == Format::fp8_tensor)
    return {"an all-to-all moves no rows of a tensor with scales per block or per tensor"};
  bytes = {data_bytes(x.format, x.columns), scale_count(x.format, 1, x.columns, 0) * 4};
  if (bytes.values % 4 != 0) return {"a row of " + std::to_string(x.columns) + " columns is no whole number of words"};
  return {};
}

Status add_planes(const TensorView& from, const TensorView& to, RowCopy& copy) {
  if (from.format != to.format || from.columns != to.columns)
    return {"an all-to-all between tensors of two formats or widths"};
  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(from, bytes));
  copy.planes[copy.planes_count++] = {from.data, to.data, bytes.values, bytes.values};
  if (bytes.scales > 0) copy.planes[copy.planes_count++] = {from.scales, to.scales, bytes.scales, bytes.scales};
  return {};
}

Status HostSink::take(std::int64_t record_bytes, SendBuffer& send_buffer) {
  if (!open_) PLUMBLINE_TRY(memory_.allocate(sink_bytes));
  open_ = true;
  send_buffer.sink_rows = sink_bytes / record_bytes;
  send_buffer.sink_first = sink_place((at_ + record_bytes - 1) / record_bytes, 0, send_buffer.sink_rows);
  at_ = sink_place(send_buffer.sink_first, send_buffer.rows, send_buffer.sink_rows) * record_bytes;
  std::int64_t offset = 0;
  for (int i = 0; i < send_buffer.planes_count; ++i) {
    send_buffer.planes[i].to = memory_.as<char>() + offset;
    send_buffer.planes[i].to_stride = record_bytes;
    offset += aligned_record(send_buffer.planes[i].bytes);
  }
  return {};
}

Status set_send_buffer(const DispatchLayout& layout, const Wire& wire, std::initializer_list<Plane> planes,
                       HostSink& sink, SendBuffer& send_buffer) {
  const auto own = static_cast<std::size_t>(own_node(layout.nodes.buckets));
  send_buffer = {};
  if (wire.gbps <= 0) return {};
  send_buffer.first = layout.nodes.list.first;
  send_buffer.tokens = layout.nodes.list.tokens;
  send_buffer.nodes = bucket_count(layout.nodes.buckets);
  send_buffer.hole = layout.nodes.first[own];
  send_buffer.hole_rows = layout.nodes.rows_of(own);
  send_buffer.rows = layout.nodes.rows() - send_buffer.hole_rows;
  if (send_buffer.rows == 0) return {};
  std::int64_t record_bytes = 0;
  for (const Plane& plane : planes) {
    if (plane.bytes == 0) continue;
    if (send_buffer.planes_count == largest_planes) return {"more tensors than an all-to-all moves together"};
    send_buffer.planes[send_buffer.planes_count++] = plane;
    record_bytes += aligned_record(plane.bytes);
  }
  const auto counted = static_cast<double>(wire.token_bytes > 0 ? wire.token_bytes : record_bytes);
  send_buffer.picoseconds_per_row = static_cast<std::int64_t>(counted * picoseconds_per_nanosecond / wire.gbps);
  return sink.take(record_bytes, send_buffer);
}

}  // namespace plumbline::real::cuda
