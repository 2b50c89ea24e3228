// Times between GPUs, in closed form: expert dispatch and combine, hops between pipeline stages,
// reductions and gathers of the optimizer. Formulas: docs/costs.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "model/base/units.h"
#include "model/cost/collective_cost.h"
#include "model/cost/constants.h"
#include "model/cost/measured_operators.h"
#include "model/graph/graph.h"
#include "model/profile/cluster.h"
#include "model/program/routing.h"

namespace plumbline::model {

struct AllToAllTime {
  double prepare = 0;     // before the ranks meet: layout of the sends, host round trip
  double notify = 0;      // meeting of the ranks, without waiting for stragglers
  double alone = 0;       // transfer, when no kernel computes beside it
  double overlapped = 0;  // transfer beside compute kernels
  Share share;            // of the transfer, on the rate that limits it
  bool measured = false;  // as it ran in a step: waits for its SMs, meeting and preparation are part of the transfer
  // Its two legs, at the rates that the kernels reach; they run together, so the longer one is the transfer.
  double network = 0, network_overlapped = 0, node = 0;
  double network_bytes = 0, node_bytes = 0;  // that one GPU sends
};

class CommunicationCost {
 public:
  struct Group {                       // of ranks that exchange tokens
    RoutingSpread spread;              // of the model's routing over them
    std::int64_t expert_parallel = 1;  // ranks
    std::int64_t stride = 1;           // GPUs from one to the next
  };
  struct Kernels {                          // that move the tokens
    std::string_view family = "deepep-v1";  // exchange.sm_curve.<family> of the profile
    // 0: as many as the family needs for its full rate; none where the profile says that others move the bytes
    std::int64_t sms = 0;
  };
  static Result<CommunicationCost> make(const Profile& profile, const ClusterShape& cluster, const Group& group,
                                        const Kernels& kernels);

  // dispatch, dispatch_grad, combine, combine_grad: the two-hop exchange (network to the same-index GPU
  // of each target node, NVLink from there), deduplicated per node. One that the profile holds as measured, among as
  // many ranks and by kernels on as many SMs, takes that time; beside compute kernels the one that was measured beside
  // some, if there is one.
  AllToAllTime all_to_all(const Graph& graph, const Operator& op) const;

  // The two legs at the highest rates of their kernels, with all the SMs these can use and beside nothing; s. Neither
  // leg of exchange() is ever below.
  struct LinkSeconds {
    double network = 0, node = 0;
  };
  LinkSeconds all_to_all_at_best(const Graph& graph, const Operator& op) const;

  // One message between neighbouring stages; `messages` of them share the link in one direction.
  double p2p(Bytes bytes, int messages) const;
  const Constant& p2p_rate() const { return across_nodes_ ? nic_rate_ : nvlink_rate_; }
  bool p2p_crosses_nodes() const { return across_nodes_; }

  // reduce_scatter, all_gather, all_reduce of the operator's tensor over its group (model/cost/collective_cost.h), or
  // as the profile holds it as measured.
  double collective(const Graph& graph, const Operator& op) const;
  // Its bytes at the highest rate, on the links that limit it: between nodes where the group lies on several; s.
  LinkSeconds collective_at_best(const Graph& graph, const Operator& op) const;
  // Attention that passes keys and values round a ring: `seconds` of kernels in as many pieces as ranks, each beside
  // the way of the next piece (backward: and of its gradients), the first with nothing to wait for.
  double ring_attention(const Graph& graph, const Operator& op, double seconds) const;

  // The same seconds on the rate of the links that the group crosses.
  Share collective_share(const Graph& graph, const Operator& op) const;

  // Groups of `ranks` that are `stride` GPUs apart lie so; else in a row on nodes whose NICs they have to themselves.
  void place_group(std::int64_t ranks, std::int64_t stride, const CollectiveGroup& group) {
    placed_groups_[{ranks, stride}] = group;
  }

  const CollectiveCost& collectives() const { return collectives_; }

  // SMs of a transfer kernel, and of a dense collective that is given as many as it wants.
  std::int64_t communication_sms() const { return communication_sms_; }
  std::int64_t collective_sms() const { return needs_sms_ ? collectives_.channels() : 0; }

 private:
  struct Rates {
    Constant alone, overlapped;
  };
  struct Call {  // of a collective
    Collective kind;
    CollectiveGroup group;
    Bytes bytes;
  };
  std::optional<Constant> measured(const Graph& graph, const Operator& op, bool overlapped = false) const;
  Call call_of(const Graph& graph, const Operator& op) const;
  const Rates& rates(OperatorKind kind) const;
  CollectiveGroup group_of(std::int64_t ranks, std::int64_t stride) const;

  MeasuredOperators measured_;
  Rates dispatch_, cached_dispatch_, combine_, weighted_combine_;
  Constant all_to_all_nvlink_, notify_, layout_, host_round_trip_;
  Constant nic_rate_, nvlink_rate_, latency_;
  CollectiveCost collectives_;
  std::map<std::pair<std::int64_t, std::int64_t>, CollectiveGroup> placed_groups_;  // by ranks and stride
  std::int64_t expert_parallel_ = 1;
  std::int64_t ranks_per_node_ = 1;  // of the expert-parallel group
  std::int64_t ranks_on_node_ = 1;   // GPUs of a node
  std::int64_t communication_sms_ = 0;
  double dispatch_share_ = 1, combine_share_ = 1;  // of the full rate, with these SMs
  bool needs_sms_ = true;
  bool across_nodes_ = true;
  RoutingSpread spread_;
};

}  // namespace plumbline::model
