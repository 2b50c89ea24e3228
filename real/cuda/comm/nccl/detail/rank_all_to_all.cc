#include "real/cuda/comm/nccl/detail/rank_all_to_all.h"

#include "real/cuda/comm/calls.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::size_t indices_tensor = 1;

std::int64_t sent(const TransferLeg& leg) { return leg.traffic.sent_by(leg.traffic.own()).back(); }
std::int64_t received(const TransferLeg& leg) { return leg.traffic.received_by(leg.traffic.own()).back(); }

// The list of the first leg exists already; that of the second is made when the rows have come.
std::vector<TransferLeg> legs_of(const DispatchLayout& layout, const SharedCounts& counts) {
  if (counts.node_members == 1) return {{between_members(counts), layout.members.list, false}};
  if (counts.nodes() == 1) return {{between_members(counts), layout.members.list, true}};
  return {{between_nodes(counts), layout.nodes.list, false}, {inside_node(counts), {}, true}};
}

// Divides a region of scratch memory.
class Region {
 public:
  explicit Region(void* begin) : at_(static_cast<char*>(begin)) {}
  std::vector<void*> take(std::span<const std::int64_t> row_bytes, std::int64_t rows) {
    const std::vector<std::int64_t> offsets = payload_offsets(row_bytes, rows);
    std::vector<void*> places;
    for (std::size_t i = 0; i < row_bytes.size(); ++i) places.push_back(at_ + offsets[i]);
    at_ += offsets.back();
    return places;
  }

 private:
  char* at_;
};

}  // namespace

RankAllToAll::Transports& RankAllToAll::transports_of(const Group& group, const ExpertHomes& homes) {
  const auto [entry, fresh] = transports_.try_emplace(group.ranks);
  Transports& transports = entry->second;
  if (!fresh) return transports;
  std::vector<std::int32_t> nodes;
  for (const std::int32_t rank : group.ranks) nodes.push_back(node_peers_.node_of[static_cast<std::size_t>(rank)]);
  transports.node_members = members_per_node(nodes);
  // The rank that forwards a token must choose the same replica of the expert as the sender.
  const std::int32_t replicas = homes.members * homes.per_rank / homes.experts;
  if (transports.node_members % replicas != 0) transports.node_members = 1;

  const std::int32_t place = group.position % transports.node_members, first = group.position - place;
  std::vector<std::int32_t> across, in_node;
  for (std::int32_t member = 0; member < group.size(); ++member) {
    const std::int32_t rank = group.ranks[static_cast<std::size_t>(member)];
    if (member % transports.node_members == place) across.push_back(rank);
    if (member >= first && member < first + transports.node_members) in_node.push_back(rank);
  }
  if (across.size() > 1) transports.between = make_nccl_transport(groups_, across, blocks_.ctas);
  if (in_node.size() > 1) transports.inside = make_node_transport(groups_, in_node, place, blocks_);
  return transports;
}

Status RankAllToAll::send(RowTransport& transport, const TransferLeg& leg, const SendRows& send_rows,
                          std::span<void* const> to, cudaStream_t stream) {
  std::vector<void*> places;
  PLUMBLINE_TRY(transport.outbox(leg.traffic, send_rows.row_bytes, stream, places));
  RowCopy copy;
  copy.source = leg.list.tokens;
  copy.rows = sent(leg);
  std::vector<PayloadTensor> payload;
  for (std::size_t i = 0; i < places.size(); ++i) {
    copy.planes[copy.planes_count++] = {send_rows.at[i], places[i], send_rows.row_bytes[i], send_rows.row_bytes[i]};
    payload.push_back({places[i], to[i], send_rows.row_bytes[i]});
  }
  PLUMBLINE_TRY(outcome(copy_rows(copy, blocks_, stream), "sorting rows"));
  return transport.swap(leg.traffic, payload, stream);
}

Status RankAllToAll::travel(const Transports& transports, const DispatchLayout& layout, SendRows send_rows,
                            std::span<void* const> receive_buffers, const Passing& passing, cudaStream_t stream) {
  const TransferLeg& last = layout.legs.back();
  if (layout.legs.size() == 1) return send(transports.of(last), last, send_rows, receive_buffers, stream);
  const TransferLeg& first = layout.legs.front();
  void* memory = nullptr;
  PLUMBLINE_TRY(scratch_.take(stream, payload_offsets(send_rows.row_bytes, received(first)).back(), memory));
  const std::vector<void*> halfway = Region(memory).take(send_rows.row_bytes, received(first));
  PLUMBLINE_TRY(send(transports.of(first), first, send_rows, halfway, stream));
  PLUMBLINE_TRY(passing(halfway));
  send_rows.at.assign(halfway.begin(), halfway.end());
  return send(transports.of(last), last, send_rows, receive_buffers, stream);
}

Status RankAllToAll::run(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  switch (kernel.op->kind) {
    case model::OperatorKind::dispatch:
      return dispatch(group, kernel, stream);
    case model::OperatorKind::dispatch_grad:
      return dispatch_grad(group, kernel, stream);
    case model::OperatorKind::combine:
      return combine(group, kernel, stream);
    default:
      return combine_grad(group, kernel, stream);
  }
}

Status RankAllToAll::dispatch(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  const ExpertHomes homes = homes_of(group, kernel);
  const Transports& transports = transports_of(group, homes);
  ncclComm_t communicator = nullptr;
  PLUMBLINE_TRY(groups_.find(group.ranks, stream, blocks_.ctas, communicator));
  const auto share = [&](const std::int32_t* own, std::int32_t* all, std::int64_t count) {
    return groups_.together(communicator, "sharing counts", [&](const Nccl& nccl) {
      return nccl.all_gather(own, all, static_cast<std::size_t>(count), ncclInt32, communicator, stream);
    });
  };
  const CudaBuffer &x = in(kernel, 0), &indices = in(kernel, 1), &weights = in(kernel, 2);
  std::shared_ptr<DispatchLayout> layout;
  SharedCounts counts;
  PLUMBLINE_TRY(layouts_.route({indices, homes, transports.node_members, [&] { return groups_.alive(); }, share},
                               stream, layout, &counts));
  layout->legs = legs_of(*layout, counts);
  layout->received_rows = received(layout->legs.back());
  PLUMBLINE_TRY(receive(kernel, layout, arriving_per_expert(counts)));

  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(x.view(), bytes));
  const std::int64_t choice_bytes = std::int64_t{4} * layout->choices;
  SendRows send_rows{{x.view().data, indices.view().data, weights.view().data},
                     {bytes.values, choice_bytes, choice_bytes}};
  std::vector<void*> receive_buffers = {out(kernel, 0).view().data, out(kernel, 1).view().data,
                                        out(kernel, 2).view().data};
  if (bytes.scales > 0) {
    send_rows.at.push_back(x.view().scales);
    send_rows.row_bytes.push_back(bytes.scales);
    receive_buffers.push_back(out(kernel, 0).view().scales);
  }
  const auto passing = [&](std::span<void* const> at) {
    return list_passing(*layout, static_cast<const std::int32_t*>(at[indices_tensor]), received(layout->legs.front()),
                        layout->legs.back().list, stream);
  };
  PLUMBLINE_TRY(travel(transports, *layout, send_rows, receive_buffers, passing, stream));
  return outcome(number_locally(homes, static_cast<std::int32_t*>(receive_buffers[indices_tensor]),
                                layout->received_rows * layout->choices, stream),
                 "numbering experts");
}

Status RankAllToAll::combine_grad(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<const DispatchLayout> layout;
  PLUMBLINE_TRY(find_layout(kernel, 1, nullptr, layout));
  const TensorView x = in(kernel, 0).view();
  PLUMBLINE_TRY(out(kernel, 0).resize(layout->received_rows));
  out(kernel, 0).mark_changed();
  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(x, bytes));
  SendRows send_rows{{x.data}, {bytes.values}};
  std::vector<void*> receive_buffers = {out(kernel, 0).view().data};
  if (bytes.scales > 0) {
    send_rows.at.push_back(x.scales);
    send_rows.row_bytes.push_back(bytes.scales);
    receive_buffers.push_back(out(kernel, 0).view().scales);
  }
  const auto listed = [](std::span<void* const> /*at*/) { return Status{}; };
  return travel(transports_of(group, layout->homes), *layout, send_rows, receive_buffers, listed, stream);
}

// Received rows are sent back in the same order, and arrive in the order of the original sends.
Status RankAllToAll::sum_back(const Group& group, const Kernel& kernel, const DispatchLayout& layout,
                              const float* small, cudaStream_t stream) {
  TensorView rows = in(kernel, 0).view();
  RowSum last;
  PLUMBLINE_TRY(make_sum(kernel, layout, rows, small, last));
  RowBytes bytes;
  PLUMBLINE_TRY(row_bytes(rows, bytes));
  const std::vector<std::int64_t> sizes = {bytes.values, small == nullptr ? 0 : std::int64_t{4} * layout.choices};
  std::int64_t needed = 0;
  for (const TransferLeg& leg : layout.legs) needed += payload_offsets(sizes, sent(leg)).back();
  if (layout.legs.size() > 1) needed += payload_offsets(sizes, received(layout.legs.front())).back();
  void* memory = nullptr;
  PLUMBLINE_TRY(scratch_.take(stream, needed, memory));
  Region region(memory);

  const Transports& transports = transports_of(group, layout.homes);
  for (std::size_t number = layout.legs.size(); number-- > 0;) {
    const TransferLeg& leg = layout.legs[number];
    const std::vector<void*> arrived = region.take(sizes, sent(leg));
    std::vector<PayloadTensor> payload = {{rows.data, arrived[0], sizes[0]}};
    if (small != nullptr) payload.push_back({small, arrived[1], sizes[1]});
    PLUMBLINE_TRY(transports.of(leg).swap(leg.traffic.back(), payload, stream));
    RowSum sum = last;
    sum.rows.data = arrived[0];
    sum.rows.rows = sent(leg);
    sum.slots = leg.list.slots;
    if (small != nullptr) sum.small_rows = static_cast<const float*>(arrived[1]);
    if (number > 0) {
      rows.rows = received(layout.legs[number - 1]);
      const std::vector<void*> summed = region.take(sizes, rows.rows);
      rows.data = summed[0];
      sum.out = rows;
      sum.addends_count = 0;
      if (small != nullptr) small = sum.small_out = static_cast<float*>(summed[1]);
    }
    PLUMBLINE_TRY(outcome(sum_rows(sum, blocks_, stream), "adding what the ranks sent"));
  }
  return {};
}

Status RankAllToAll::dispatch_grad(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<const DispatchLayout> layout;
  PLUMBLINE_TRY(find_layout(kernel, 2, &in(kernel, 0), layout));
  return sum_back(group, kernel, *layout, in(kernel, 1).data<const float>(), stream);
}

Status RankAllToAll::combine(const Group& group, const Kernel& kernel, cudaStream_t stream) {
  std::shared_ptr<const DispatchLayout> layout;
  PLUMBLINE_TRY(find_layout(kernel, 1, &in(kernel, 0), layout));
  return sum_back(group, kernel, *layout, nullptr, stream);
}

}  // namespace plumbline::real::cuda
