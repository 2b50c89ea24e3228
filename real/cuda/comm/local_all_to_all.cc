#include "real/cuda/comm/local_all_to_all.h"

#include "real/cuda/comm/calls.h"

namespace plumbline::real::cuda {
namespace {

Plane leaving(const void* from, std::int64_t bytes) { return {from, nullptr, bytes, 0}; }

}  // namespace

Wire LocalAllToAll::wire_of(const Kernel& kernel) const { return {options_.nic_gbps, token_bytes_of(kernel)}; }

Status LocalAllToAll::run(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  switch (kernel.op->kind) {
    case model::OperatorKind::dispatch:
      return dispatch(group, kernel, stream);
    case model::OperatorKind::dispatch_grad:
      return dispatch_grad(kernel, stream);
    case model::OperatorKind::combine:
      return combine(kernel, stream);
    default:
      return combine_grad(kernel, stream);
  }
}

Status LocalAllToAll::dispatch(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<DispatchLayout> layout;
  const CudaBuffer &x = in(kernel, 0), &indices = in(kernel, 1), &weights = in(kernel, 2);
  std::vector<std::int32_t> nodes;
  for (const std::int32_t rank : group.ranks) nodes.push_back(rank / options_.ranks_per_node);
  const std::int32_t node_members = members_per_node(nodes);
  PLUMBLINE_TRY(layouts_.route({indices, homes_of(group, kernel), node_members, {}, {}}, stream, layout));
  layout->received_rows = layout->members.rows();
  PLUMBLINE_TRY(receive(kernel, layout, folded_rows_per_expert(layout->homes, layout->choices_of)));

  RowCopy copy;
  copy.source = layout->members.list.tokens;
  copy.rows = layout->received_rows;
  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(x.view(), bytes));
  PLUMBLINE_TRY(add_planes(x.view(), out(kernel, 0).view(), copy));
  PLUMBLINE_TRY(add_planes(weights.view(), out(kernel, 2).view(), copy));
  const std::int64_t choice_bytes = std::int64_t{4} * layout->choices;
  PLUMBLINE_TRY(
      set_send_buffer(*layout, wire_of(kernel),
                      {leaving(x.view().data, bytes.values), leaving(x.view().scales, bytes.scales),
                       leaving(indices.view().data, choice_bytes), leaving(weights.view().data, choice_bytes)},
                      sink_, copy.send_buffer));
  PLUMBLINE_TRY(outcome(copy_rows(copy, blocks_, stream), "sending tokens"));
  return outcome(number_locally(task_of(*layout, indices), layout->members.list, layout->received_rows,
                                out(kernel, 1).data<std::int32_t>(), stream),
                 "numbering experts");
}

Status LocalAllToAll::combine_grad(const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<const DispatchLayout> layout;
  PLUMBLINE_TRY(find_layout(kernel, 1, nullptr, layout));
  const CudaBuffer& x = in(kernel, 0);
  PLUMBLINE_TRY(out(kernel, 0).resize(layout->received_rows));
  out(kernel, 0).mark_changed();
  RowCopy copy;
  copy.source = layout->members.list.tokens;
  copy.rows = layout->received_rows;
  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(x.view(), bytes));
  PLUMBLINE_TRY(add_planes(x.view(), out(kernel, 0).view(), copy));
  PLUMBLINE_TRY(set_send_buffer(*layout, wire_of(kernel),
                                {leaving(x.view().data, bytes.values), leaving(x.view().scales, bytes.scales)}, sink_,
                                copy.send_buffer));
  return outcome(copy_rows(copy, blocks_, stream), "sending gradients");
}

Status LocalAllToAll::sum_back(const Kernel& kernel, const DispatchLayout& layout, RowSum& sum, cudaStream_t stream) {
  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(sum.rows, bytes));
  const std::int64_t small = sum.small_rows == nullptr ? 0 : std::int64_t{4} * layout.choices;
  PLUMBLINE_TRY(set_send_buffer(layout, wire_of(kernel),
                                {leaving(sum.rows.data, bytes.values), leaving(nullptr, small)}, sink_,
                                sum.send_buffer));
  return outcome(sum_rows(sum, blocks_, stream), "adding what the ranks sent");
}

Status LocalAllToAll::dispatch_grad(const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<const DispatchLayout> layout;
  RowSum sum;
  PLUMBLINE_TRY(find_layout(kernel, 2, &in(kernel, 0), layout));
  PLUMBLINE_TRY(make_sum(kernel, *layout, in(kernel, 0).view(), in(kernel, 1).data<const float>(), sum));
  return sum_back(kernel, *layout, sum, stream);
}

Status LocalAllToAll::combine(const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<const DispatchLayout> layout;
  RowSum sum;
  PLUMBLINE_TRY(find_layout(kernel, 1, &in(kernel, 0), layout));
  PLUMBLINE_TRY(make_sum(kernel, *layout, in(kernel, 0).view(), nullptr, sum));
  return sum_back(kernel, *layout, sum, stream);
}

}  // namespace plumbline::real::cuda
