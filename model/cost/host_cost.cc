#include "model/cost/host_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <variant>

#include "model/base/statistics.h"
#include "model/cost/work.h"
#include "model/plan/plan.h"

namespace plumbline::model {

namespace {

constexpr double bits = 8, giga = 1e9;

bool fuses(const Plan& plan, std::string_view part) {
  return std::ranges::find(plan.stack.fused, part) != plan.stack.fused.end();
}

// Returns what an expert of a grouped GEMM asks of the host: a call of cuBLAS, with more operands where they have
// scales, or a part of one call where a kernel has all experts.
std::string_view expert_constant(const Plan& plan) {
  if (fuses(plan, "experts")) return "host.fused_expert";
  const Precision experts = plan.precision.experts.value_or(plan.precision.gemm);
  if (experts == Precision::nvfp4) return "host.nvfp4_expert";
  return is_quantized(experts) ? "host.quantized_expert" : "host.expert";
}

// Returns where a layer of experts needs its counts on the host: before the dispatch where the stack states so of all
// its software, of the plan's dispatcher or of a fused permutation.
OperatorKind counted_at(ConstantReader& reader, const Plan& plan) {
  const auto stated = [&](const std::string& software) {
    return reader.value("host.synchronizations." + software + "at_dispatch") > 0;
  };
  const bool at_dispatch =
      stated("") || stated(plan.stack.dispatcher + ".") || (fuses(plan, "permute") && stated("fused."));
  return plan.parallelism.expert > 1 && at_dispatch ? OperatorKind::dispatch : OperatorKind::router;
}

// Returns the waits before what arrived is permuted, of a fused permutation where the stack states them apart.
double waits_at_permute(ConstantReader& reader, const Plan& plan) {
  const std::string prefix = fmt::format("host.synchronizations.{}.", plan.stack.dispatcher);
  const auto fused = fuses(plan, "permute") ? reader.find(prefix + "fused.at_permute") : std::nullopt;
  return fused ? fused->value : reader.value(prefix + "at_permute");
}

// Stages of several model chunks send their messages in the order of the stream, without the host (Megatron-Core
// megatron/core/pipeline_parallel/p2p_communication.py: batch_p2p_sync holds without --overlap-p2p-communication, the
// default of virtual stages).
bool waits_for_messages(const Plan& plan) { return plan.parallelism.pipeline > 1 && plan.schedule.virtual_stages == 1; }

// The scope of Megatron's graphs that has the operator (megatron/core/transformer/transformer_layer.py,
// _te_cuda_graph_capture): shared experts that do not overlap run before the router and are captured with it.
std::string_view scope_of(const Graph& graph, const Operator& op) {
  const bool routes = op.kind == OperatorKind::router || op.kind == OperatorKind::router_grad;
  if (routes || op.name.starts_with("router") || op.name.starts_with("shared_")) return "moe_router";
  if (op.kind == OperatorKind::dispatch || op.kind == OperatorKind::dispatch_grad) return "moe_preprocess";
  // Copies that an all-to-all sends are sized by what the router chose.
  if (op.kind == OperatorKind::permute || op.kind == OperatorKind::permute_grad || op.name == "cast_dispatch")
    return "moe";
  if (op.section == Section::attention) return "attn";
  if (op.section == Section::dispatch || op.section == Section::combine) return "moe";
  if (op.section != Section::mlp) return "";
  const bool dense =
      std::ranges::none_of(graph.operators, [](const Operator& other) { return other.kind == OperatorKind::router; });
  return dense ? "mlp" : "moe";
}

}  // namespace

Result<HostCost> HostCost::make(const Profile& profile, const ClusterShape& cluster, const Plan& plan) {
  ConstantReader reader(profile);
  HostCost cost;
  cost.link_efficiency_ = reader.require("host.link_efficiency");
  cost.memory_bandwidth_ = reader.require("host.memory_bandwidth");
  cost.read_launches(reader, plan, cluster.hosts());
  cost.captured_ = plan.stack.graphs;
  cost.counted_at_ = counted_at(reader, plan);
  cost.graphs_ = cost.graphs_ || cost.captures("full_iteration");
  if (cost.graphs_) cost.synchronizations_clamp_ = cost.synchronizations_slot_ = 0;
  if (!waits_for_messages(plan)) cost.synchronizations_slot_ = 0;
  if (plan.parallelism.pipeline == 1) cost.messages_ = 0;
  // Experts that are padded have the same rows whatever the routing.
  const bool padded = plan.routing.pad_to_capacity.value_or(false);
  if (cost.graphs_ || padded) cost.synchronizations_moe_ = 0;
  if (cost.synchronizations_moe_ == 0 || plan.parallelism.expert == 1) cost.synchronizations_permute_ = 0;
  if (!padded && !fuses(plan, "permute")) cost.expert_tensor_ = static_cast<double>(plan.parallelism.expert_tensor);
  if (reader.error()) return tl::unexpected(*reader.error());
  cost.link_ = cluster.device.host_bandwidth.value() * cost.link_efficiency_.value;
  cost.loader_ = plan.input.loader_gbps.value_or(0) * giga / bits;
  cost.bytes_per_token_ = plan.input.bytes_per_token;
  cost.nodes_ = static_cast<double>(cluster.nodes());
  const char* copies = plan.offload.optimizer         ? "offload.optimizer"
                       : plan.offload.activations > 0 ? "offload.activations"
                       : plan.optimizer.ema != "none" ? "optimizer.ema"
                                                      : nullptr;
  if (copies != nullptr && cost.link_ == 0)
    return tl::unexpected(
        plan_error(plan, ErrorKind::infeasible, copies,
                   fmt::format("no constant gives the rate between {} and its host", cluster.device.name),
                   "add host_bandwidth to the device's file"));
  return cost;
}

// Ranks meet in every layer or slot, so that all wait for the slowest host.
void HostCost::read_launches(ConstantReader& reader, const Plan& plan, std::int64_t hosts) {
  const auto read = [&](std::string_view name) { return reader.find(name).value_or(Constant{}); };
  const double slowest = 1 + expected_largest(hosts) * reader.value("host.spread");
  const double speed = plan.cluster.host_speed.value_or(reader.value("host.speed", 1)) / slowest;
  const auto timed = [&](std::string_view name) {
    Constant constant = read(name);
    constant.value /= speed;
    return constant;
  };
  launch_ = timed("host.launch");
  forward_ = timed("host.operator.forward");
  backward_ = timed("host.operator.backward");
  forward_layer_ = timed("host.layer.forward");
  backward_layer_ = timed("host.layer.backward");
  view_ = timed("host.view");
  expert_ = timed(expert_constant(plan));
  synchronization_ = timed("host.synchronization");
  step_ = timed("host.step");
  serving_ = {read("serving.step").value, read("serving.request").value, read("serving.host_step").value,
              read("serving.host_request").value, reader.value("serving.engine_factor", 1)};
  if (const std::int64_t interval = plan.inference.stream_interval; interval > 0)
    serving_.stream = read("serving.stream").value / static_cast<double>(interval);
  graph_launch_ = timed("host.graph_launch");
  graphs_ = read("host.graphs").value > 0;
  blocks_ = read("host.launch_blocking").value > 0;
  fills_ = read("host.fills").value;
  synchronizations_moe_ = read("host.synchronizations.moe").value;
  synchronizations_permute_ = waits_at_permute(reader, plan);
  synchronizations_clamp_ = read("host.synchronizations.clamp").value;
  synchronizations_slot_ = read("host.synchronizations.slot").value;
  const auto collectives = [&](std::string_view op) {
    return reader.value(fmt::format("host.collectives.{}.{}", op, plan.stack.dispatcher), 1);
  };
  dispatches_ = collectives("dispatch");
  dispatch_gradients_ = collectives("dispatch_grad");
  short_kernel_ = reader.value("kernel.shortest") + reader.value("kernel.launch_gap");
  messages_ = read("host.messages").value;
  for (const Constant& one : {launch_, forward_, backward_, forward_layer_, backward_layer_, synchronization_})
    issues_ = issues_ || one.index >= 0;
}

HostCalls& HostCalls::add(const HostCalls& other) {
  launches += other.launches;
  forward += other.forward;
  backward += other.backward;
  forward_layers += other.forward_layers;
  backward_layers += other.backward_layers;
  graphs += other.graphs;
  views += other.views;
  experts += other.experts;
  synchronizations += other.synchronizations;
  drains += other.drains;
  return *this;
}

// The host waits for the number of tokens of each expert: it sizes the next tensors and what it sends by them. The
// backward pass takes the numbers of the forward pass.
HostCalls HostCost::calls(const Graph& graph, const Operator& op, double launches, double share) const {
  if (launches == 0) return {};
  // What is copied to buffers of a graph is issued by the operator that launches the graph.
  if (op.name.starts_with("graph_")) return {.launches = share * launches};
  const std::string_view scope = captured_.empty() ? "" : scope_of(graph, op);
  const bool prepared = scope == "moe_preprocess" && captures(scope);
  if (captures(scope) && !prepared) {
    HostCalls waits;
    if (op.kind == counted_at_) waits.synchronizations = share * synchronizations_moe_;
    return waits;
  }
  HostCalls calls{.launches = share * (prepared ? std::min(1.0, launches) : fills_ + launches),
                  .views = share * views(op)};
  const bool forward = op.phase == Phase::F || op.recomputed;
  (forward ? calls.forward : calls.backward) = share * (prepared ? 1 : collectives(op.kind));
  if (op.kind == counted_at_) calls.synchronizations = share * synchronizations_moe_;
  if (op.kind == OperatorKind::grouped_matmul)
    calls.experts = share * static_cast<double>(gemm_shape(graph, op, 1).groups);
  if (op.kind == OperatorKind::clamp) calls.drains = share * synchronizations_clamp_;
  if (op.kind == OperatorKind::permute) calls.drains = share * synchronizations_permute_;
  return calls;
}

// Of several collectives the first gathers the counts. A kernel that sends by itself is a launch of the operator that
// counts.
HostCost::Dispatching HostCost::dispatching(const HostCalls& calls) const {
  const double share = calls.synchronizations / synchronizations_moe_, sent = std::max(1.0, dispatches_ - 1);
  const double each = share * (launch_.value + (dispatches_ > 1 ? forward_.value : 0)), all = one_by_one(calls);
  const double first = std::min(all, each), others = std::min(all - first, (sent - 1) * each);
  return {.before = all - first - others,
          .first = first,
          .others = others,
          .counted = std::max(0.0, calls.launches - share * sent) * short_kernel_};
}

double HostCost::collectives(OperatorKind kind) const {
  if (kind == OperatorKind::dispatch) return dispatches_;
  return kind == OperatorKind::dispatch_grad ? dispatch_gradients_ : 1;
}

// Without a kernel that sorts them, the rows that an all-to-all brought are split by rank and expert and joined by
// expert: the tokens, their probabilities and, before they go back, the results. Each has as many pieces as the model
// has experts, on every rank of a tensor group (Megatron-LM megatron/core/transformer/moe/moe_utils.py,
// sort_chunks_by_idxs).
double HostCost::views(const Operator& op) const {
  constexpr double sorts = 3;
  if (op.kind != OperatorKind::permute && op.kind != OperatorKind::permute_grad) return 0;
  const auto* rows = std::get_if<DispatchAttributes>(&op.attributes);
  if (rows == nullptr || rows->dispatcher != Dispatcher::alltoall) return 0;
  const bool sorted = rows->experts_per_rank > 1 && rows->experts_per_rank < rows->experts;
  return sorted ? sorts * expert_tensor_ * static_cast<double>(rows->experts) : 0;
}

HostCalls HostCost::layer_calls(bool forward) const {
  HostCalls calls;
  (forward ? calls.forward_layers : calls.backward_layers) = 1;
  if (captured_.empty()) return calls;
  calls.graphs = 1;
  (forward ? calls.forward : calls.backward) = 1;
  return calls;
}

bool HostCost::captures(std::string_view scope) const { return std::ranges::find(captured_, scope) != captured_.end(); }

std::array<Share, 8> HostCost::issue_shares(const HostCalls& calls) const {
  if (graphs_) return {Share{graph_launch_.index, graph_launch_.value}};
  return shares_one_by_one(calls);
}

std::array<Share, 8> HostCost::shares_one_by_one(const HostCalls& calls) const {
  return {Share{launch_.index, calls.launches * launch_.value},
          Share{forward_.index, calls.forward * forward_.value},
          Share{backward_.index, calls.backward * backward_.value},
          Share{forward_layer_.index, calls.forward_layers * forward_layer_.value},
          Share{backward_layer_.index, calls.backward_layers * backward_layer_.value},
          Share{view_.index, calls.views * view_.value},
          Share{expert_.index, calls.experts * expert_.value},
          Share{graph_launch_.index, calls.graphs * graph_launch_.value}};
}

double HostCost::one_by_one(const HostCalls& calls) const {
  double seconds = 0;
  for (const Share& share : shares_one_by_one(calls)) seconds += share.seconds;
  return seconds;
}

double HostCost::serving_step(double device, double launches, double requests) const {
  const double host = serving_.host + serving_.request_host * requests + launches;
  return std::max(serving_.factor * device, host) + serving_.wait + serving_.request_wait * requests;
}

double HostCost::copy(const Graph& graph, const Operator& op) const {
  assert(link_ > 0 && "make() refuses copies over an unknown link");
  const TensorId on_host = op.kind == OperatorKind::copy_to_host ? op.writes[0] : op.reads[0];
  return graph.tensor(on_host).bytes().value() / link_;
}

Share HostCost::copy_share(const Graph& graph, const Operator& op) const {
  return {link_efficiency_.index, copy(graph, op)};
}

double HostCost::update(const Graph& graph, const Operator& op) const {
  return bytes_moved(graph, op, 1).value() / memory_bandwidth_.value;
}

double HostCost::input(double rank_tokens, double step_tokens) const {
  const double over_link = link_ > 0 ? rank_tokens * bytes_per_token_ / link_ : 0;
  const double loaded = loader_ > 0 ? step_tokens * bytes_per_token_ / (nodes_ * loader_) : 0;
  return std::max(over_link, loaded);
}

}  // namespace plumbline::model
