// Times between GPUs, in closed form: expert dispatch and combine, hops between pipeline stages,
// reductions and gathers of the optimizer. Formulas: docs/costs.md.
#pragma once

#include "model/cluster.h"
#include "model/cost/constants.h"
#include "model/graph/graph.h"
#include "model/routing.h"
#include "model/units.h"

namespace plumbline::model {

struct ExchangeTime {
  double prepare = 0;  // before the ranks meet: layout of the sends, host round trip
  double notify = 0;   // meeting of the ranks, without waiting for stragglers
  double alone = 0;    // transfer, when no kernel computes beside it
  double beside = 0;   // transfer beside compute kernels
  Share share;         // of the transfer, on the rate that limits it
};

class ExchangeCost {
 public:
  // spread: of the model's routing over this expert-parallel group; communication_sms: SMs of the
  // transfer kernels under overlap (0: as many as the kernel family needs for its full rate).
  static Result<ExchangeCost> make(const Profile& profile, const ClusterShape& cluster, const RoutingSpread& spread,
                                   std::int64_t expert_parallel, std::int64_t communication_sms);

  // dispatch, dispatch_grad, combine, combine_grad: the two-hop exchange (network to the same-index GPU
  // of each target node, NVLink from there), deduplicated per node.
  ExchangeTime exchange(const Graph& graph, const Operator& op) const;

  // One message between neighbouring stages; `messages` of them share the link in one direction.
  double hop(Bytes bytes, int messages) const;
  const Constant& hop_rate() const { return across_nodes_ ? nic_rate_ : nvlink_rate_; }

  // reduce_scatter, all_gather, all_reduce of the operator's tensor over its group.
  double collective(const Graph& graph, const Operator& op) const;

  std::int64_t kernel_sms() const { return static_cast<std::int64_t>(family_sms_.value); }

 private:
  struct Rates {
    Constant alone, beside;
  };
  const Rates& rates(OperatorKind kind) const;

  Rates dispatch_, cached_dispatch_, combine_, weighted_combine_;
  Constant exchange_nvlink_, notify_, layout_, host_round_trip_, family_sms_;
  Constant nic_rate_, nvlink_rate_, latency_, collective_latency_;
  std::int64_t expert_parallel_ = 1;
  std::int64_t ranks_per_node_ = 1;  // of the expert-parallel group
  std::int64_t ranks_on_node_ = 1;   // GPUs of a node
  double sms_share_ = 1;
  bool across_nodes_ = true;
  RoutingSpread spread_;
};

}  // namespace plumbline::model
