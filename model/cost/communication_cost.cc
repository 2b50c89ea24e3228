#include "model/cost/communication_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "model/cost/detail/sm_curve.h"
#include "model/cost/measured_operators.h"

namespace plumbline::model {

namespace {

// Returns the seconds of a transfer; 0 bytes take none, because a node without NICs has no rate.
double over(double bytes, double rate) { return bytes > 0 ? bytes / rate : 0; }

}  // namespace

Result<CommunicationCost> CommunicationCost::make(const Profile& profile, const ClusterShape& cluster,
                                                  const Group& group, const Kernels& kernels) {
  ConstantReader reader(profile);
  const auto rates = [&](std::string_view name) {
    return Rates{reader.require(fmt::format("exchange.{}.nic_rate", name)),
                 reader.require(fmt::format("exchange.{}.nic_rate_beside_compute", name))};
  };
  CommunicationCost cost;
  cost.dispatch_ = rates("dispatch");
  cost.cached_dispatch_ = rates("cached_dispatch");
  cost.combine_ = rates("combine");
  cost.weighted_combine_ = rates("weighted_combine");
  cost.all_to_all_nvlink_ = reader.require("exchange.nvlink_rate");
  cost.notify_ = reader.require("exchange.notify");
  cost.layout_ = reader.require("exchange.layout");
  cost.host_round_trip_ = reader.require("exchange.host_round_trip");
  cost.nic_rate_ = reader.require("network.nic_rate");
  cost.nvlink_rate_ = reader.require("network.nvlink_rate");
  cost.latency_ = reader.require("network.latency");
  cost.needs_sms_ = reader.require("communication.needs_sms").value > 0;
  if (reader.error()) return tl::unexpected(*reader.error());

  // A profile's rates hold for its line rates; another line rate scales them.
  const double nic_scale = cluster.inter_node_bandwidth().value() / reader.require("network.nic_line_rate").value;
  const double nvlink_scale = cluster.intra_node_bandwidth.value() / reader.require("network.nvlink_line_rate").value;
  if (reader.error()) return tl::unexpected(*reader.error());
  for (Rates* r : {&cost.dispatch_, &cost.cached_dispatch_, &cost.combine_, &cost.weighted_combine_}) {
    r->alone.value *= nic_scale;
    r->overlapped.value *= nic_scale;
  }
  cost.nic_rate_.value *= nic_scale;
  cost.all_to_all_nvlink_.value *= nvlink_scale;
  cost.nvlink_rate_.value *= nvlink_scale;
  cost.expert_parallel_ = group.expert_parallel;
  cost.ranks_per_node_ =
      std::min(group.expert_parallel, std::max<std::int64_t>(1, cluster.gpus_per_node / group.stride));
  cost.ranks_on_node_ = cluster.gpus_per_node;
  cost.across_nodes_ = cluster.gpus > cluster.gpus_per_node;
  cost.spread_ = group.spread;
  auto measured = TRY(MeasuredOperators::read(profile));
  cost.measured_ = std::move(measured);
  const auto collectives = TRY(CollectiveCost::make(profile, cluster));
  cost.collectives_ = collectives;
  const auto dispatch = TRY(SmCurve::read(profile, kernels.family, "dispatch"));
  const auto combine = TRY(SmCurve::read(profile, kernels.family, "combine"));
  cost.communication_sms_ = kernels.sms;
  if (!cost.needs_sms_) return cost;
  if (kernels.sms == 0) cost.communication_sms_ = std::max(dispatch.saturation(), combine.saturation());
  cost.dispatch_share_ = dispatch.share(cost.communication_sms_);
  cost.combine_share_ = combine.share(cost.communication_sms_);
  return cost;
}

const CommunicationCost::Rates& CommunicationCost::rates(OperatorKind kind) const {
  switch (kind) {
    case OperatorKind::dispatch:
      return dispatch_;
    case OperatorKind::combine_grad:
      return cached_dispatch_;
    case OperatorKind::dispatch_grad:
      return weighted_combine_;
    default:
      return combine_;
  }
}

// Without SMs for communication one CPU core does the transfers and sums.
std::optional<Constant> CommunicationCost::measured(const Graph& graph, const Operator& op, bool overlapped) const {
  if (measured_.empty()) return std::nullopt;
  const std::string key = operator_key(graph, op);
  const std::int64_t cores = needs_sms_ ? communication_sms_ : 1;
  const auto alone = measured_.find(key, {cores, false});
  if (!overlapped) return alone;
  const auto found = measured_.find(key, {cores, true});
  return found ? found : alone;
}

// With uniform routing a token's nodes include its own with probability 1/nodes. Of the ranks that it reaches on a
// node, one in ranks_per_node is the GPU on which it arrives.
AllToAllTime CommunicationCost::all_to_all(const Graph& graph, const Operator& op) const {
  AllToAllTime time;
  if (const auto known = measured(graph, op, true)) {
    time.overlapped = known->value;
    time.alone = measured(graph, op, false).value_or(*known).value;
    time.share = {known->index, known->value};
    time.measured = true;
    return time;
  }
  if (expert_parallel_ == 1) return time;
  const auto& attributes = std::get<DispatchAttributes>(op.attributes);
  const bool sends_tokens = op.kind == OperatorKind::dispatch || op.kind == OperatorKind::combine_grad;
  const Tensor& own = graph.tensor(sends_tokens ? op.reads[0] : op.writes[0]);
  const double bytes = static_cast<double>(own.shape[0].size) * static_cast<double>(attributes.token_bytes);
  const double nodes = static_cast<double>(expert_parallel_) / static_cast<double>(ranks_per_node_);
  const double over_network = bytes * spread_.nodes_per_token * (1 - 1 / nodes);
  const double over_nvlink = bytes * spread_.ranks_per_token * (1 - 1 / static_cast<double>(ranks_per_node_));
  const Rates& nic = rates(op.kind);
  const double share = sends_tokens ? dispatch_share_ : combine_share_;
  const double on_nvlink = over_nvlink / (all_to_all_nvlink_.value * share);
  time.network_bytes = over_network;
  time.node_bytes = over_nvlink;
  time.network = over(over_network, nic.alone.value * share);
  time.network_overlapped = over(over_network, nic.overlapped.value * share);
  time.node = on_nvlink;
  time.alone = std::max(time.network, on_nvlink);
  time.overlapped = std::max(time.network_overlapped, on_nvlink);
  time.share = {time.overlapped > on_nvlink ? nic.overlapped.index : all_to_all_nvlink_.index, time.overlapped};
  time.notify = notify_.value;
  if (op.kind == OperatorKind::dispatch) time.prepare = layout_.value + host_round_trip_.value;
  return time;
}

double CommunicationCost::p2p(Bytes bytes, int messages) const {
  return latency_.value + messages * bytes.value() / p2p_rate().value;
}

CollectiveGroup CommunicationCost::group_of(std::int64_t ranks, std::int64_t stride) const {
  const auto placed = placed_groups_.find({ranks, stride});
  if (placed != placed_groups_.end()) return placed->second;
  return CollectiveGroup::strided(ranks, stride, ranks_on_node_);
}

double CommunicationCost::ring_attention(const Graph& graph, const Operator& op, double seconds) const {
  const auto& attributes = std::get<AttentionAttributes>(op.attributes);
  if (attributes.ring_ranks == 1) return seconds;
  const bool forward = op.kind == OperatorKind::attention;
  const std::size_t key = forward ? 1 : 2;
  const Bytes piece = graph.tensor(op.reads[key]).bytes() + graph.tensor(op.reads[key + 1]).bytes();
  const CollectiveGroup group = group_of(attributes.ring_ranks, attributes.ring_stride);
  const double transfer = collectives_.time(Collective::send_recv, group, piece * (forward ? 1.0 : 2.0));
  const auto pieces = static_cast<double>(attributes.ring_ranks);
  return seconds / pieces + (pieces - 1) * std::max(seconds / pieces, transfer);
}

Share CommunicationCost::collective_share(const Graph& graph, const Operator& op) const {
  if (const auto known = measured(graph, op)) return {known->index, known->value};
  const auto& attributes = std::get<CollectiveAttributes>(op.attributes);
  const CollectiveGroup group = group_of(attributes.ranks, attributes.stride);
  return {(group.nodes() > 1 ? nic_rate_ : nvlink_rate_).index, collective(graph, op)};
}

CommunicationCost::Call CommunicationCost::call_of(const Graph& graph, const Operator& op) const {
  const auto& attributes = std::get<CollectiveAttributes>(op.attributes);
  const Tensor& whole = graph.tensor(op.kind == OperatorKind::all_gather ? op.writes[0] : op.reads[0]);
  const Collective kind = op.kind == OperatorKind::all_gather   ? Collective::all_gather
                          : op.kind == OperatorKind::all_reduce ? Collective::all_reduce
                                                                : Collective::reduce_scatter;
  return {kind, group_of(attributes.ranks, attributes.stride), whole.bytes()};
}

double CommunicationCost::collective(const Graph& graph, const Operator& op) const {
  if (const auto known = measured(graph, op)) return known->value;
  const Call call = call_of(graph, op);
  return collectives_.time(call.kind, call.group, call.bytes);
}

CommunicationCost::LinkSeconds CommunicationCost::collective_at_best(const Graph& graph, const Operator& op) const {
  const Call call = call_of(graph, op);
  double seconds = collectives_.best(call.kind, call.group, call.bytes);
  if (const auto known = measured(graph, op)) seconds = std::min(seconds, known->value);
  return call.group.nodes() > 1 ? LinkSeconds{seconds, 0} : LinkSeconds{0, seconds};
}

CommunicationCost::LinkSeconds CommunicationCost::all_to_all_at_best(const Graph& graph, const Operator& op) const {
  const AllToAllTime time = all_to_all(graph, op);
  const Rates& nic = rates(op.kind);
  return {over(time.network_bytes, std::max(nic.alone.value, nic.overlapped.value)),
          time.node_bytes / all_to_all_nvlink_.value};
}

}  // namespace plumbline::model
