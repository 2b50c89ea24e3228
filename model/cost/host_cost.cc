#include "model/cost/host_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "model/cost/work.h"

namespace plumbline::model {

namespace {

constexpr double bits = 8, giga = 1e9;

}  // namespace

Result<HostCost> HostCost::make(const Profile& profile, const ClusterShape& cluster, const Plan& plan) {
  ConstantReader reader(profile);
  HostCost cost;
  cost.link_efficiency_ = reader.require("host.link_efficiency");
  cost.memory_bandwidth_ = reader.require("host.memory_bandwidth");
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
