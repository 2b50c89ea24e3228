// CommunicationCost gives times between GPUs in closed form: expert dispatch and combine, messages between pipeline
// stages, reductions and gathers of the optimizer. Formulas: docs/costs.md.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "model/base/units.h"
#include "model/cost/collective_cost.h"
#include "model/cost/constants.h"
#include "model/cost/forms/transfer_forms.h"
#include "model/cost/measured_operators.h"
#include "model/graph/graph.h"
#include "model/profile/cluster.h"
#include "model/program/program.h"

namespace plumbline::model {

// Seconds of a dispatch or combine, and what they depend on.
struct AllToAllTime {
  double prepare = 0;     // before the rendezvous of the ranks: dispatch layout, host round trip
  double notify = 0;      // rendezvous of the ranks, without waiting for stragglers
  double alone = 0;       // transfer without concurrent compute kernels
  double overlapped = 0;  // transfer with concurrent compute kernels
  Share share;            // seconds of the transfer on the rate that limits it
  bool measured = false;  // as it ran in a step: the transfer includes preparation, rendezvous and the wait for SMs
  // Seconds of the two legs, each with the work of the kernels' SMs. They run concurrently, so the longer one is the
  // transfer.
  double network = 0, network_overlapped = 0, node = 0;
  double network_bytes = 0, node_bytes = 0;  // sent by one GPU
};

class CommunicationCost {
 public:
  struct Group {                       // the expert-parallel ranks
    RoutingSpread spread;              // spread of the model's routing over these ranks
    std::int64_t expert_parallel = 1;  // ranks
    std::int64_t stride = 1;           // GPUs from one to the next
    // Bytes of a token's values, which decide how many SMs are needed: by default DeepSeek-V3's, FP8 out and BF16 back.
    double dispatched_bytes = 7392, combined_bytes = 14336;
    std::int64_t node_gpus = 0;  // of a node that the ranks have between them; 0: all that the cluster's nodes have
  };
  struct Kernels {  // the kernels that move the tokens
    // deepep-v1 has the constants exchange.<direction>.*, another family exchange.<family>.<direction>.*.
    std::string_view family = "deepep-v1";
    // 0: as many as the software stack gives them, else the fewest with which they do not limit
    // (exchange_saturation()), at most half of the device's; none where the profile states that no SMs move the bytes
    std::int64_t sms = 0;
    // The collectives of NCCL (alltoall, allgather) hold the SMs of its channels where `sms` is 0.
    Dispatcher dispatcher = Dispatcher::deepep;
    // Of the low-latency kernels: their constants are exchange.low_latency.<version>.<direction>.*. Empty: there are
    // none.
    std::string low_latency;
  };
  static Result<CommunicationCost> make(const Profile& profile, const ClusterShape& cluster, const Group& group,
                                        const Kernels& kernels);

  // Returns the time of dispatch, dispatch_grad, combine or combine_grad: a two-step all-to-all, deduplicated per node,
  // with a network leg to the same-index GPU of each target node and an NVLink leg from there. A time that the profile
  // has measured for as many ranks and SMs is used instead, for `overlapped` one measured so, if any. Operators whose
  // dispatcher is alltoall or allgather are NCCL's collectives over the group, whose ranks may first gather counts;
  // those of low-latency kernels have no rendezvous apart and hold no SMs.
  AllToAllTime all_to_all(const Graph& graph, const Operator& op) const;

  // Returns the seconds of the two legs at the highest rates of their kernels, with all SMs that these can use and
  // without other work. No leg of all_to_all() is faster.
  struct LinkSeconds {
    double network = 0, node = 0;
  };
  LinkSeconds all_to_all_at_best(const Graph& graph, const Operator& op) const;

  // Returns the seconds of one message between adjacent stages when `messages` of them share the link in one direction.
  double p2p(Bytes bytes, int messages) const;
  // Returns those of them in which nothing is on the link between the stages.
  double p2p_apart(Bytes bytes) const;
  // Sets the tensor ranks that each send a part of such a message, and gather it where it arrives.
  void divide_messages(std::int64_t ranks) { message_parts_ = ranks; }
  // Returns what a rank sends of a message.
  Bytes message_part(Bytes bytes) const { return bytes / static_cast<double>(message_parts_); }
  // Sets the B/s of the slowest link that messages between stages cross; the default is no limit.
  void limit_messages(double rate) { message_limit_ = rate; }
  const Constant& p2p_rate() const { return across_nodes_ ? nic_rate_ : nvlink_rate_; }
  bool p2p_crosses_nodes() const { return across_nodes_; }

  // Returns the seconds of reduce_scatter, all_gather or all_reduce of the operator's tensor over its group, measured
  // where the profile has it, else by model/cost/collective_cost.h.
  double collective(const Graph& graph, const Operator& op) const;
  // Returns the seconds of its bytes at the highest rate of its links: network for groups over several nodes, else
  // node.
  LinkSeconds collective_at_best(const Graph& graph, const Operator& op) const;
  // Returns the bytes that a GPU sends in it through its NIC and inside its node, on the path that seconds are those
  // of, and at most what the rates of these links move in its seconds.
  struct CollectiveLoad {
    std::int64_t ranks = 1, stride = 1;  // of the group
    double network_bytes = 0, node_bytes = 0;
  };
  CollectiveLoad collective_load(const Graph& graph, const Operator& op) const;
  // Returns the seconds of ring attention, whose kernels take `seconds` in all. It runs in as many pieces as ranks,
  // each overlapped with the transfer of the next keys and values (backward: and gradients). The first never waits.
  // Where a stack's ring_attention.waits is 1 nothing overlaps.
  double ring_attention(const Graph& graph, const Operator& op, double seconds) const;

  // Returns the same seconds as a share of the rate of the links that the group crosses.
  Share collective_share(const Graph& graph, const Operator& op) const;

  // Sets how groups of `ranks`, `stride` GPUs apart, are placed. The default is consecutively, with NICs of their own.
  void place_group(std::int64_t ranks, std::int64_t stride, const CollectiveGroup& group) {
    placed_groups_[{ranks, stride}] = group;
  }

  // Takes factors on the times of single shapes, or none; they must outlive the object. Of an all-to-all they multiply
  // the transfer, not what precedes it. Bounds, messages between stages and measured times do not use them.
  void use(const ShapeFactors* factors) { factors_ = factors; }

  const CollectiveCost& collectives() const { return collectives_; }

  // SMs of a transfer kernel, and of a dense collective without a limit on its SMs.
  std::int64_t communication_sms() const { return communication_sms_; }
  std::int64_t collective_sms() const { return needs_sms_ ? collectives_.channels() : 0; }

 private:
  struct Direction {             // dispatch, combine, and those of the backward pass
    Constant alone, overlapped;  // rates of a NIC
    Constant rank_rate;          // of an SM
    Constant nvlink;             // rate of the links within an NVLink domain
    ExchangeConstants others;    // all but the NIC's rate

    ExchangeConstants with(const Constant& nic_rate) const;
  };
  struct LowLatency {  // one direction of the version of these kernels
    LowLatencyConstants constants;
    Constant network, node;  // rates
  };
  struct Ring {  // ring attention as the software runs it
    bool repeated_heads = false, returns = false, waits = false;
    double gradient_element = 0;  // bytes; 0: those of the gradient's tensor
  };
  struct Call {  // a collective
    Collective kind;
    CollectiveGroup group;
    Bytes bytes;
  };
  std::optional<Constant> measured(const Graph& graph, const Operator& op, bool overlapped = false) const;
  Call call_of(const Graph& graph, const Operator& op) const;
  double seconds_of(const Call& call) const;
  Call exchange_call(const Graph& graph, const Operator& op) const;
  AllToAllTime all_to_all_by_form(const Graph& graph, const Operator& op) const;
  // Returns the seconds before a dispatch of so many tokens in which its kernels find out where these go.
  double layout(const DispatchAttributes& attributes, double tokens) const;
  AllToAllTime exchange_by_collective(const Graph& graph, const Operator& op) const;
  const LowLatency& low_latency(OperatorKind kind) const;
  LowLatencyWork low_latency_work(const Graph& graph, const Operator& op) const;
  AllToAllTime exchange_at_low_latency(const Graph& graph, const Operator& op) const;
  Result<void> read_low_latency(const Profile& profile, const std::string& version, double nic_scale,
                                double nvlink_scale);
  const Direction& direction(OperatorKind kind) const;
  ExchangeWork work(double tokens, double token_bytes) const;
  // Returns the bytes of a token that DeepEP or HybridEP sends to a rank.
  double sent_bytes(const Operator& op) const;
  std::int64_t saturation(const Group& group) const;
  CollectiveGroup group_of(std::int64_t ranks, std::int64_t stride) const;

  MeasuredOperators measured_;
  Direction dispatch_, cached_dispatch_, combine_, weighted_combine_;
  LowLatency low_latency_dispatch_, low_latency_combine_;
  bool once_per_rank_ = false;  // tokens of low-latency kernels
  Constant notify_, layout_, host_round_trip_;
  double map_time_ = 0, map_expert_time_ = 0;  // of HybridEP
  Constant nic_rate_, nvlink_rate_, latency_;
  CollectiveCost collectives_;
  std::map<std::pair<std::int64_t, std::int64_t>, CollectiveGroup> placed_groups_;  // by ranks and stride
  Ring ring_;
  NetworkFactors network_;
  std::int64_t expert_parallel_ = 1, expert_stride_ = 1;
  std::int64_t ranks_per_node_ = 1;  // ranks of the expert-parallel group on a node
  std::int64_t ranks_on_node_ = 1;   // GPUs per node
  std::int64_t communication_sms_ = 0;
  bool chosen_sms_ = true;  // by the plan
  bool needs_sms_ = true;
  bool uneven_apart_ = false;  // pieces of different length are broadcast, or reduced, one by one
  bool across_nodes_ = true;
  double message_limit_ = std::numeric_limits<double>::infinity();
  std::int64_t message_parts_ = 1;
  RoutingSpread spread_;
  const ShapeFactors* factors_ = nullptr;
};

}  // namespace plumbline::model
