#include "real/cuda/comm/calls.h"

#include <string>

namespace plumbline::real::cuda {
namespace {

const model::DispatchAttributes& attributes_of(const Kernel& kernel) {
  return std::get<model::DispatchAttributes>(kernel.op->attributes);
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

}  // namespace plumbline::real::cuda
