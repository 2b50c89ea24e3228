#include "model/cost/communication_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <variant>

#include "model/cost/operator_class.h"

namespace plumbline::model {

namespace {

constexpr std::string_view default_family = "deepep-v1";

// Returns what the constants of a family's kernels begin with.
std::string prefix_of(std::string_view family) {
  return family == default_family ? "exchange." : fmt::format("exchange.{}.", family);
}

// Returns the error of kernels for which a profile has no constant named first + kernels + last.
Error unknown_kernels(const Profile& profile, std::string_view key, std::string_view kernels, std::string_view first,
                      std::string_view last, std::set<std::string> known) {
  for (const Parameter& parameter : profile.parameters())
    if (parameter.name.starts_with(first) && parameter.name.ends_with(last) &&
        parameter.name.size() > first.size() + last.size())
      known.insert(parameter.name.substr(first.size(), parameter.name.size() - first.size() - last.size()));
  return {ErrorKind::input,
          fmt::format("profile '{}' has no communication kernels '{}'", profile.name(), kernels),
          "",
          0,
          std::string(key),
          fmt::format("known: {}", fmt::join(known, ", "))};
}

// Reads the constants of the SMs of a family's kernels: those of `kernel`, else of `fallback`.
class SmConstants {
 public:
  SmConstants(ConstantReader& reader, std::string_view family, std::string_view kernel, std::string_view fallback)
      : reader_(reader),
        own_(fmt::format("{}{}.", prefix_of(family), kernel)),
        other_(fmt::format("{}{}.", prefix_of(family), fallback)) {}

  Constant rank_rate() { return reader_.require_either(own_ + "rank_rate", other_ + "rank_rate"); }
  // Returns the rate of links that only this family reaches, which holds whatever stays on a GPU.
  std::optional<Constant> nvlink_rate() {
    const auto own = reader_.find(own_ + "nvlink_rate");
    return own ? own : reader_.find(other_ + "nvlink_rate");
  }
  ExchangeConstants read() {
    return {.start = value("start"),
            .start_exponent = value("start_exponent"),
            .node_rate = value("node_rate"),
            .rank_rate = value("rank_rate"),
            .forward_rate = value("forward_rate"),
            .row_time = value("row_time"),
            .token_time = value("token_time")};
  }

 private:
  double value(const char* name) {
    if (const auto own = reader_.find(own_ + name)) return own->value;
    return reader_.value(other_ + name);
  }

  ConstantReader& reader_;
  std::string own_, other_;
};

// Rates over NVLink. Within a tray of a rack-wide domain the kernels have rates of their own.
struct NvlinkRates {
  Constant nvlink, local;
};

NvlinkRates nvlink_rates(ConstantReader& reader, std::int64_t span) {
  NvlinkRates rates{reader.require("exchange.nvlink_rate"), reader.find("exchange.local_rate").value_or(Constant{})};
  const auto tray = reader.find("exchange.tray.gpus");
  if (!tray || static_cast<double>(span) > tray->value) return rates;
  rates.nvlink = reader.find("exchange.tray.nvlink_rate").value_or(rates.nvlink);
  rates.local = reader.find("exchange.tray.local_rate").value_or(rates.local);
  return rates;
}

// Returns the tokens that a rank sends in a dispatch, or that it gets back in a combine.
double rows_of(const Graph& graph, const Operator& op) {
  const bool sends = op.kind == OperatorKind::dispatch || op.kind == OperatorKind::combine_grad;
  return static_cast<double>(graph.tensor(sends ? op.reads[0] : op.writes[0]).shape[0].size);
}

}  // namespace

ExchangeConstants CommunicationCost::Direction::with(const Constant& nic_rate) const {
  ExchangeConstants constants = others;
  constants.nic_rate = nic_rate.value;
  return constants;
}

Result<CommunicationCost> CommunicationCost::make(const Profile& profile, const ClusterShape& cluster,
                                                  const Group& group, const Kernels& kernels) {
  ConstantReader reader(profile);
  const bool needs_sms = reader.require("communication.needs_sms").value > 0;
  if (kernels.family != default_family && !profile.find(prefix_of(kernels.family) + "dispatch.rank_rate"))
    return tl::unexpected(unknown_kernels(profile, "overlap.communication_kernels", kernels.family, "exchange.",
                                          ".dispatch.rank_rate", {std::string(default_family)}));
  const NvlinkRates nvlink = nvlink_rates(reader, group.expert_parallel * group.stride);
  const auto direction = [&](std::string_view name, std::string_view fallback) {
    Direction found{.nvlink = nvlink.nvlink};
    found.alone = reader.require(fmt::format("exchange.{}.nic_rate", name));
    found.overlapped = reader.require(fmt::format("exchange.{}.nic_rate_beside_compute", name));
    found.others.local_rate = nvlink.local.value;
    if (!needs_sms) return found;
    SmConstants constants(reader, kernels.family, name, fallback);
    found.rank_rate = constants.rank_rate();
    found.others = constants.read();
    const auto own = constants.nvlink_rate();
    if (own) found.nvlink = *own;
    found.others.local_rate = own ? 0 : nvlink.local.value;
    return found;
  };
  CommunicationCost cost;
  cost.dispatch_ = direction("dispatch", "dispatch");
  cost.cached_dispatch_ = direction("cached_dispatch", "dispatch");
  cost.combine_ = direction("combine", "combine");
  cost.weighted_combine_ = direction("weighted_combine", "combine");
  cost.notify_ = reader.require("exchange.notify");
  cost.layout_ = reader.require("exchange.layout");
  cost.host_round_trip_ = reader.require("exchange.host_round_trip");
  cost.map_time_ = reader.value("exchange.hybridep.map_time");
  cost.map_expert_time_ = reader.value("exchange.hybridep.map_expert_time");
  cost.ring_ = {.repeated_heads = reader.value("ring_attention.repeated_heads") > 0,
                .returns = reader.value("ring_attention.returns") > 0,
                .waits = reader.value("ring_attention.waits") > 0,
                .gradient_element = reader.value("ring_attention.gradient_element")};
  cost.uneven_apart_ = reader.value("collective.uneven_apart") > 0;
  cost.nic_rate_ = reader.require("network.nic_rate");
  cost.nvlink_rate_ = reader.require("network.nvlink_rate");
  cost.latency_ = reader.require("network.latency");
  cost.needs_sms_ = needs_sms;
  if (reader.error()) return tl::unexpected(*reader.error());

  // A profile's rates hold for its line rates; another line rate scales them.
  const NetworkFactors& network = cluster.network;
  const double nic_scale = cluster.inter_node_bandwidth().value() / reader.require("network.nic_line_rate").value;
  const double exchange_scale = nic_scale * network.exchange_rate;
  const double nvlink_scale = cluster.intra_node_bandwidth.value() / reader.require("network.nvlink_line_rate").value;
  if (reader.error()) return tl::unexpected(*reader.error());
  cost.nic_rate_.value *= nic_scale * network.collective_rate;
  cost.latency_.value *= network.collective_latency;
  for (Direction* d : {&cost.dispatch_, &cost.cached_dispatch_, &cost.combine_, &cost.weighted_combine_}) {
    d->alone.value *= exchange_scale;
    d->overlapped.value *= exchange_scale;
    d->nvlink.value *= nvlink_scale;
    d->others.nvlink_rate = d->nvlink.value;
  }
  cost.nvlink_rate_.value *= nvlink_scale;
  cost.network_ = network;
  cost.expert_parallel_ = group.expert_parallel;
  cost.expert_stride_ = group.stride;
  const std::int64_t node_gpus = group.node_gpus > 0 ? group.node_gpus : cluster.gpus_per_node;
  cost.ranks_per_node_ = std::min(group.expert_parallel, std::max<std::int64_t>(1, node_gpus / group.stride));
  cost.ranks_on_node_ = cluster.gpus_per_node;
  cost.across_nodes_ = cluster.gpus > cluster.gpus_per_node;
  cost.spread_ = group.spread;
  if (!kernels.low_latency.empty())
    TRY(cost.read_low_latency(profile, kernels.low_latency, exchange_scale, nvlink_scale));
  cost.measured_ = TRY(MeasuredOperators::read(profile));
  cost.collectives_ = TRY(CollectiveCost::make(profile, cluster));
  cost.communication_sms_ = kernels.sms;
  cost.chosen_sms_ = kernels.sms > 0;
  if (needs_sms && kernels.sms == 0) {
    const bool hybrid = kernels.family == "hybrid-ep" || kernels.dispatcher == Dispatcher::hybridep;
    const auto stated = reader.find(hybrid ? "exchange.hybridep.sms" : "exchange.deepep.sms");
    const std::int64_t wanted = is_collective(kernels.dispatcher) ? cost.collective_sms()
                                : stated                          ? std::llround(stated->value)
                                                                  : cost.saturation(group);
    cost.communication_sms_ = std::min(wanted, cluster.device.sms / 2);
  }
  return cost;
}

Result<void> CommunicationCost::read_low_latency(const Profile& profile, const std::string& version, double nic_scale,
                                                 double nvlink_scale) {
  constexpr std::string_view all = "exchange.low_latency.", first_constant = ".dispatch.start";
  const std::string prefix = fmt::format("{}{}", all, version);
  if (!profile.find(fmt::format("{}{}", prefix, first_constant)))
    return tl::unexpected(unknown_kernels(profile, "inference.dispatch", version, all, first_constant, {"all-reduce"}));
  ConstantReader reader(profile);
  const auto read = [&](const char* way) {
    const auto find = [&](const char* name) {
      return reader.find(fmt::format("{}.{}.{}", prefix, way, name)).value_or(Constant{});
    };
    LowLatency found;
    found.network = find("nic_rate");
    found.node = find("node_rate");
    found.constants = {.start = find("start").value,
                       .step = find("step").value,
                       .nic_rate = found.network.value * nic_scale,
                       .node_start = find("node_start").value,
                       .node_step = find("node_step").value,
                       .expert_time = find("expert_time").value,
                       .node_rate = found.node.value * nvlink_scale};
    return found;
  };
  low_latency_dispatch_ = read("dispatch");
  low_latency_combine_ = read("combine");
  for (LowLatency* way : {&low_latency_dispatch_, &low_latency_combine_})
    for (double* time : {&way->constants.start, &way->constants.step}) *time *= network_.low_latency_start;
  once_per_rank_ = reader.value(prefix + ".once_per_rank") > 0;
  if (low_latency_dispatch_.network.value > 0 || expert_parallel_ <= ranks_per_node_) return {};
  return infeasible("inference.dispatch",
                    fmt::format("'{}' reaches GPUs of one NVLink domain only, and {} ranks of experts lie on several",
                                version, expert_parallel_),
                    fmt::format("choose kernels that use NICs, or at most {} ranks", ranks_per_node_));
}

std::int64_t CommunicationCost::saturation(const Group& group) const {
  std::int64_t sms = 0;
  for (const auto& [direction, bytes] :
       {std::pair(&dispatch_, group.dispatched_bytes), std::pair(&cached_dispatch_, group.dispatched_bytes),
        std::pair(&combine_, group.combined_bytes), std::pair(&weighted_combine_, group.combined_bytes)})
    sms = std::max(sms, exchange_saturation(direction->with(direction->alone), work(1, bytes)));
  return sms;
}

ExchangeWork CommunicationCost::work(double tokens, double token_bytes) const {
  return {.tokens = tokens,
          .token_bytes = token_bytes,
          .ranks_per_token = spread_.ranks_per_token,
          .nodes_per_token = spread_.nodes_per_token,
          .ranks = static_cast<double>(expert_parallel_),
          .nodes = static_cast<double>(expert_parallel_) / static_cast<double>(ranks_per_node_)};
}

// HybridEP sends a probability in FP32 for every expert of the NVLink domain with a token, and sums as many on the way
// back of a backward pass (deepseek-ai/DeepEP docs/Hybrid-EP_Implementation.md @0b18ed2a, prob_buffer;
// csrc/hybrid_ep/backend, NUM_OF_EXPERTS_PER_RANK * NUM_OF_RANKS_PER_NODE of a forward dispatch and a backward
// combine).
double CommunicationCost::sent_bytes(const Operator& op) const {
  const auto& attributes = std::get<DispatchAttributes>(op.attributes);
  const bool weighs = op.kind == OperatorKind::dispatch || op.kind == OperatorKind::dispatch_grad;
  const bool all = weighs && attributes.dispatcher == Dispatcher::hybridep;
  constexpr double probability_bytes = 4;
  const double experts = all ? static_cast<double>(attributes.experts_per_rank * ranks_per_node_) : 0;
  return static_cast<double>(attributes.token_bytes) + probability_bytes * experts;
}

const CommunicationCost::Direction& CommunicationCost::direction(OperatorKind kind) const {
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

// Without SMs for communication one CPU core does the transfers and sums. Where the plan chooses no number of SMs,
// whoever measured did; of collectives it never chooses one.
std::optional<Constant> CommunicationCost::measured(const Graph& graph, const Operator& op, bool overlapped) const {
  if (measured_.empty()) return std::nullopt;
  const std::string key = operator_key(graph, op);
  std::int64_t cores = needs_sms_ ? communication_sms_ : 1;
  const auto entries = measured_.find(key);
  if (needs_sms_ && (!chosen_sms_ || is_collective(op.kind)) && !entries.empty()) cores = entries.back().first.cores;
  const auto alone = measured_.find(key, {cores, false});
  if (!overlapped) return alone;
  const auto found = measured_.find(key, {cores, true});
  return found ? found : alone;
}

// During compute the SMs of the kernels are taken to slow down as much as the transfer over the NIC: what was measured
// is the whole transfer, with one number of SMs.
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
  time = all_to_all_by_form(graph, op);
  if (factors_ == nullptr) return time;
  const auto& attributes = std::get<DispatchAttributes>(op.attributes);
  const double factor = factors_->factor(
      shape_key(CostFamily::all_to_all, {static_cast<double>(op.kind), static_cast<double>(attributes.dispatcher),
                                         rows_of(graph, op), static_cast<double>(attributes.token_bytes),
                                         static_cast<double>(expert_parallel_), static_cast<double>(ranks_per_node_)}));
  for (double* seconds :
       {&time.alone, &time.overlapped, &time.network, &time.network_overlapped, &time.node, &time.share.seconds})
    *seconds *= factor;
  return time;
}

AllToAllTime CommunicationCost::all_to_all_by_form(const Graph& graph, const Operator& op) const {
  const auto& attributes = std::get<DispatchAttributes>(op.attributes);
  if (is_collective(attributes.dispatcher)) return exchange_by_collective(graph, op);
  if (attributes.dispatcher == Dispatcher::low_latency) return exchange_at_low_latency(graph, op);
  AllToAllTime time;
  const ExchangeWork sent = work(rows_of(graph, op), sent_bytes(op));
  const Direction& by = direction(op.kind);
  const double sms = needs_sms_ ? static_cast<double>(communication_sms_) : 0;
  const ExchangeSeconds alone = exchange_seconds(by.with(by.alone), sent, sms);
  ExchangeSeconds overlapped =
      exchange_seconds(by.with(by.overlapped), sent, sms * by.overlapped.value / by.alone.value);
  overlapped.node = alone.node;
  overlapped.sms_limit_node = alone.sms_limit_node;
  time.network_bytes = sent.network_bytes();
  time.node_bytes = sent.node_bytes();
  time.network = alone.network;
  time.network_overlapped = overlapped.network;
  time.node = alone.node;
  time.alone = alone.seconds();
  time.overlapped = overlapped.seconds();
  const bool on_network = overlapped.network > overlapped.node;
  const bool by_sms = on_network ? overlapped.sms_limit_network : overlapped.sms_limit_node;
  const Constant& link = on_network ? by.overlapped : by.nvlink;
  time.share = {(by_sms ? by.rank_rate : link).index, time.overlapped};
  time.notify = notify_.value;
  if (op.kind == OperatorKind::dispatch) time.prepare = layout(attributes, sent.tokens) + host_round_trip_.value;
  return time;
}

// HybridEP gathers which experts each token of the group chose, a byte for every expert, and looks through all tokens
// for those of its own experts (deepseek-ai/DeepEP csrc/hybrid_ep/executor/executor.cu, metadata_preprocess_core and
// dispatch_postprocess).
double CommunicationCost::layout(const DispatchAttributes& attributes, double tokens) const {
  if (attributes.dispatcher != Dispatcher::hybridep || map_time_ == 0) return layout_.value;
  const double all = tokens * static_cast<double>(expert_parallel_);
  const Bytes map(all * static_cast<double>(attributes.experts));
  return collectives_.time(Collective::all_gather, group_of(expert_parallel_, expert_stride_), map) +
         all * (map_time_ + map_expert_time_ * static_cast<double>(attributes.experts_per_rank));
}

LowLatencyWork CommunicationCost::low_latency_work(const Graph& graph, const Operator& op) const {
  const auto& attributes = std::get<DispatchAttributes>(op.attributes);
  const double copies = once_per_rank_ ? spread_.ranks_per_token : static_cast<double>(attributes.experts_per_token);
  return {.bytes = rows_of(graph, op) * copies * static_cast<double>(attributes.token_bytes),
          .ranks = static_cast<double>(expert_parallel_),
          .nodes = static_cast<double>(expert_parallel_) / static_cast<double>(ranks_per_node_),
          .experts = static_cast<double>(attributes.experts)};
}

const CommunicationCost::LowLatency& CommunicationCost::low_latency(OperatorKind kind) const {
  return kind == OperatorKind::dispatch ? low_latency_dispatch_ : low_latency_combine_;
}

AllToAllTime CommunicationCost::exchange_at_low_latency(const Graph& graph, const Operator& op) const {
  const LowLatency& by = low_latency(op.kind);
  const LowLatencyWork sent = low_latency_work(graph, op);
  const ExchangeSeconds seconds = low_latency_seconds(by.constants, sent);
  AllToAllTime time;
  time.network = time.network_overlapped = seconds.network;
  time.node = seconds.node;
  time.alone = time.overlapped = seconds.seconds();
  time.network_bytes = sent.network_bytes(by.constants);
  time.node_bytes = sent.node_bytes(by.constants);
  time.share = {(seconds.network > seconds.node ? by.network : by.node).index, time.overlapped};
  return time;
}

// A gather's buffer holds the tokens of all ranks. Its transpose is a reduce-scatter of the experts' sums.
CommunicationCost::Call CommunicationCost::exchange_call(const Graph& graph, const Operator& op) const {
  const auto& attributes = std::get<DispatchAttributes>(op.attributes);
  const CollectiveGroup group = group_of(expert_parallel_, expert_stride_);
  const Bytes rows(rows_of(graph, op) * static_cast<double>(attributes.token_bytes));
  if (attributes.dispatcher == Dispatcher::alltoall) return {Collective::all_to_all, group, rows};
  const bool sends = op.kind == OperatorKind::dispatch || op.kind == OperatorKind::combine_grad;
  return {sends ? Collective::all_gather : Collective::reduce_scatter, group,
          rows * static_cast<double>(expert_parallel_)};
}

// The weights of copies travel in an all-to-all of their own, whose bytes are in token_bytes. Where counts differ, each
// rank gathers those of all experts from all ranks, four bytes each, before the dispatch.
AllToAllTime CommunicationCost::exchange_by_collective(const Graph& graph, const Operator& op) const {
  const auto& attributes = std::get<DispatchAttributes>(op.attributes);
  const auto [kind, group, bytes] = exchange_call(graph, op);
  const bool weighs = op.kind == OperatorKind::dispatch || op.kind == OperatorKind::dispatch_grad;
  AllToAllTime time;
  time.alone = collectives_.time(kind, group, bytes);
  if (weighs) time.alone += collectives_.time(kind, group, Bytes(0));
  time.overlapped = time.alone;
  if (attributes.counts_rows && op.kind == OperatorKind::dispatch)
    time.prepare = collectives_.time(Collective::all_gather, group,
                                     Bytes(4.0 * static_cast<double>(attributes.experts * expert_parallel_)));
  const bool across = group.nodes() > 1;
  (across ? time.network : time.node) = time.alone;
  time.network_overlapped = time.network;
  const auto ranks = static_cast<double>(group.ranks), on_node = static_cast<double>(group.ranks_per_node);
  const double others = kind == Collective::all_to_all ? 1 : on_node;  // ranks whose pieces a NIC brings once
  time.network_bytes = across ? bytes.value() * (ranks - on_node) / (ranks * others) : 0;
  time.node_bytes = across ? 0 : bytes.value() * (on_node - 1) / ranks;
  time.share = {(across ? nic_rate_ : nvlink_rate_).index, time.alone};
  return time;
}

double CommunicationCost::p2p(Bytes bytes, int messages) const {
  return p2p_apart(bytes) + messages * message_part(bytes).value() / std::min(p2p_rate().value, message_limit_);
}

double CommunicationCost::p2p_apart(Bytes bytes) const {
  if (message_parts_ == 1 || bytes.value() == 0) return latency_.value;
  return latency_.value + collectives_.time(Collective::all_gather, group_of(message_parts_, 1), bytes);
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
  const double copies = ring_.repeated_heads ? static_cast<double>(attributes.query_heads) /
                                                   static_cast<double>(attributes.key_value_heads)
                                             : 1;
  const auto bytes = [&](TensorId id) { return copies * graph.tensor(id).bytes(); };
  const auto gradient_bytes = [&](TensorId id) {
    return ring_.gradient_element > 0 ? Bytes(copies * ring_.gradient_element * graph.tensor(id).elements())
                                      : bytes(id);
  };
  const std::size_t key = forward ? 1 : 2;
  const Bytes keys = bytes(op.reads[key]) + bytes(op.reads[key + 1]);
  // Backward, with keys and values go their gradients.
  const Bytes gradients = forward ? Bytes(0) : gradient_bytes(op.writes[1]) + gradient_bytes(op.writes[2]);
  const CollectiveGroup group = group_of(attributes.ring_ranks, attributes.ring_stride);
  const auto transfer = [&](Bytes sent) { return seconds_of({Collective::send_recv, group, sent}); };
  const double each = transfer(keys + gradients), last = !forward && ring_.returns ? transfer(gradients) : 0;
  const auto pieces = static_cast<double>(attributes.ring_ranks);
  if (ring_.waits) return seconds + (pieces - 1) * each + last;
  return seconds / pieces + (pieces - 1) * std::max(seconds / pieces, each) + last;
}

Share CommunicationCost::collective_share(const Graph& graph, const Operator& op) const {
  if (const auto known = measured(graph, op)) return {known->index, known->value};
  const auto& attributes = std::get<CollectiveAttributes>(op.attributes);
  const CollectiveGroup group = group_of(attributes.ranks, attributes.stride);
  return {(group.nodes() > 1 ? nic_rate_ : nvlink_rate_).index, collective(graph, op)};
}

// Broadcasts of all pieces, each on its share of the channels, take as long as one of the whole on all of them, and
// reductions to their owners are broadcasts backwards.
CommunicationCost::Call CommunicationCost::call_of(const Graph& graph, const Operator& op) const {
  const auto& attributes = std::get<CollectiveAttributes>(op.attributes);
  if (op.kind == OperatorKind::exchange_heads)
    return {Collective::all_to_all, group_of(attributes.ranks, attributes.stride),
            std::max(graph.tensor(op.reads[0]).bytes(), graph.tensor(op.writes[0]).bytes())};
  const Tensor& whole = graph.tensor(op.kind == OperatorKind::all_gather ? op.writes[0] : op.reads[0]);
  const Collective kind = attributes.uneven && uneven_apart_    ? Collective::broadcast
                          : op.kind == OperatorKind::all_gather ? Collective::all_gather
                          : op.kind == OperatorKind::all_reduce ? Collective::all_reduce
                                                                : Collective::reduce_scatter;
  return {kind, group_of(attributes.ranks, attributes.stride), whole.bytes()};
}

double CommunicationCost::collective(const Graph& graph, const Operator& op) const {
  if (const auto known = measured(graph, op)) return known->value;
  return seconds_of(call_of(graph, op));
}

double CommunicationCost::seconds_of(const Call& call) const {
  const double seconds = collectives_.time(call.kind, call.group, call.bytes);
  if (factors_ == nullptr || call.group.ranks == 1) return seconds;
  return seconds * factors_->factor(shape_key(CostFamily::collective,
                                              {static_cast<double>(call.kind), static_cast<double>(call.group.ranks),
                                               static_cast<double>(call.group.ranks_per_node), call.bytes.value()}));
}

CommunicationCost::CollectiveLoad CommunicationCost::collective_load(const Graph& graph, const Operator& op) const {
  const auto& attributes = std::get<CollectiveAttributes>(op.attributes);
  CollectiveLoad load{attributes.ranks, attributes.stride};
  if (load.ranks == 1) return load;
  const Call call = call_of(graph, op);
  const CollectivePath path = collectives_.fastest(call.kind, call.group, call.bytes);
  const double seconds = collective(graph, op);
  load.network_bytes =
      std::min(path.nic_load * call.bytes.value(), seconds * collectives_.nic_rate() / call.group.network_slowdown);
  load.node_bytes = std::min(path.node_load * call.bytes.value(), seconds * collectives_.nvlink_rate());
  return load;
}

CommunicationCost::LinkSeconds CommunicationCost::collective_at_best(const Graph& graph, const Operator& op) const {
  const Call call = call_of(graph, op);
  double seconds = collectives_.best(call.kind, call.group, call.bytes);
  if (const auto known = measured(graph, op)) seconds = std::min(seconds, known->value);
  return call.group.nodes() > 1 ? LinkSeconds{seconds, 0} : LinkSeconds{0, seconds};
}

CommunicationCost::LinkSeconds CommunicationCost::all_to_all_at_best(const Graph& graph, const Operator& op) const {
  if (expert_parallel_ == 1 || measured(graph, op, true)) return {};
  const auto& attributes = std::get<DispatchAttributes>(op.attributes);
  if (is_collective(attributes.dispatcher)) {
    const auto [kind, group, bytes] = exchange_call(graph, op);
    const double seconds = collectives_.best(kind, group, bytes);
    return group.nodes() > 1 ? LinkSeconds{seconds, 0} : LinkSeconds{0, seconds};
  }
  if (attributes.dispatcher == Dispatcher::low_latency) {
    LowLatencyConstants links = low_latency(op.kind).constants;
    links.start = links.step = links.node_start = links.node_step = links.expert_time = 0;
    const ExchangeSeconds best = low_latency_seconds(links, low_latency_work(graph, op));
    return {best.network, best.node};
  }
  const Direction& by = direction(op.kind);
  const Constant& faster = by.alone.value > by.overlapped.value ? by.alone : by.overlapped;
  const ExchangeSeconds best = exchange_link_seconds(by.with(faster), work(rows_of(graph, op), sent_bytes(op)));
  return {best.network, best.node};
}

}  // namespace plumbline::model
