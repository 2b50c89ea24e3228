// HostCost predicts transfers between a GPU and its host and work on the host: offloaded optimizer states and
// activations, a moving average of the parameters, the tokens of a step (formulas: docs/parallelism.md), and what it
// costs the host to launch kernels (formulas: docs/costs.md).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/cost/constants.h"
#include "model/graph/graph.h"
#include "model/profile/cluster.h"

namespace plumbline::model {

struct Plan;

// What the host does to issue a part of a slot.
struct HostCalls {
  double launches = 0;               // of kernels, collectives and copies
  double forward = 0, backward = 0;  // operators of each direction; recomputed ones are forward
  double forward_layers = 0, backward_layers = 0;
  double graphs = 0;            // CUDA graphs of parts of layers
  double views = 0;             // pieces of tensors that are split and joined in another order
  double experts = 0;           // of grouped GEMMs
  double synchronizations = 0;  // waits for what a router chose, after which the host is no longer ahead of it
  double drains = 0;            // waits for all that was issued: before the operator, of a clamp with its kernels

  HostCalls& add(const HostCalls& other);
};

class HostCost {
 public:
  // Fails with an input error when the profile lacks a constant, and as infeasible when the plan needs copies but the
  // device states no host bandwidth.
  static Result<HostCost> make(const Profile& profile, const ClusterShape& cluster, const Plan& plan);

  // Returns the seconds of copy_to_host or copy_to_device. The link's rate does not depend on the other direction.
  double copy(const Graph& graph, const Operator& op) const;
  Share copy_share(const Graph& graph, const Operator& op) const;
  // Returns the seconds of AdamW on the host, which reads and writes every state once at the GPU's share of its
  // bandwidth.
  double update(const Graph& graph, const Operator& op) const;
  // Returns the seconds to load the tokens of one step for one GPU, `rank_tokens` of the `step_tokens` of the whole
  // step. The data loaders of the node and the host link work concurrently, so the slower one counts.
  double input(double rank_tokens, double step_tokens) const;

  // Returns whether the profile states what launching costs. Where it does not, the host is never the limit.
  bool launches() const { return issues_; }
  // Returns what an operator of `launches` kernels asks of the host; `share` is the part of its work that is launched
  // here. One that another operator's kernel computes, with no launch of its own, asks nothing, nor does one that is
  // captured in a graph. What prepares a dispatch is captured without the dispatch itself. A dispatch by several
  // collectives is as many operators. Before a dispatch the host waits for what the router chose, after a router for
  // its end.
  HostCalls calls(const Graph& graph, const Operator& op, double launches, double share) const;
  // What the host does around the wait of a dispatch, in CPU seconds: what counts and permutes is issued before it, the
  // first kernel that sends right after it, then the others. `counted` is what the GPU takes to count.
  struct Dispatching {
    double before = 0, first = 0, others = 0, counted = 0;
  };
  // Returns it of the calls of a dispatch that waits.
  Dispatching dispatching(const HostCalls& calls) const;
  // Returns what a layer asks of it besides its operators: where parts of it are captured, they are a graph, which one
  // operator launches.
  HostCalls layer_calls(bool forward) const;
  // Returns what a slot asks of it besides its operators and layers: its messages to and from other stages, each a
  // launch and an operator as a collective is.
  HostCalls slot_calls() const {
    return {.launches = messages_, .forward = messages_, .synchronizations = synchronizations_slot_};
  }
  // Returns whether slots are launched as CUDA graphs.
  bool graphs() const { return graphs_; }
  // Returns the CPU seconds in which a slot, or the end of a step, is issued by one thread, and the constants behind
  // them. Where slots are launched as CUDA graphs, that is one launch for all of it.
  double issue(const HostCalls& calls) const { return graphs_ ? graph_launch_.value : one_by_one(calls); }
  // Returns the same without graphs.
  double one_by_one(const HostCalls& calls) const;
  std::array<Share, 8> issue_shares(const HostCalls& calls) const;
  // Returns whether the host waits for the end of each launch before it goes on (CUDA_LAUNCH_BLOCKING).
  bool blocks() const { return blocks_; }
  // Returns the seconds from the end of what the host waited for until the host goes on.
  double idle(const HostCalls& calls) const {
    return (blocks_ ? calls.launches : calls.synchronizations + calls.drains) * synchronization_.value;
  }
  Share idle_share(const HostCalls& calls) const { return {synchronization_.index, idle(calls)}; }
  // Returns the CPU seconds of an optimizer step that the GPU waits for.
  double step() const { return step_.value; }

  // Returns the seconds of a step of an inference engine over `requests` requests that keeps the GPU busy for `device`
  // seconds by its kernels, and whose launches take `launches` seconds of the host. The host prepares the next step
  // while the GPU computes, so that the longer of the two counts, and what the GPU waits for between steps.
  double serving_step(double device, double launches, double requests) const;
  // Returns the seconds in which the process in front of the engine sends the tokens of such a step to clients.
  double streaming(double requests) const { return serving_.stream * requests; }
  // Returns the seconds from the end of such a step until a client has its token, in the mean: one is sent after the
  // other.
  double sending(double requests) const { return serving_.stream * (std::max(1.0, requests) + 1) / 2; }

 private:
  void read_launches(ConstantReader& reader, const Plan& plan, std::int64_t hosts);
  bool captures(std::string_view scope) const;
  // Returns the collectives by which the operator sends, or 1.
  double collectives(OperatorKind kind) const;
  // Returns the pieces that the operator splits and joins.
  double views(const Operator& op) const;
  std::array<Share, 8> shares_one_by_one(const HostCalls& calls) const;

  // Absent constants are 0.
  Constant launch_, forward_, backward_, forward_layer_, backward_layer_, view_, expert_;
  Constant graph_launch_, synchronization_, step_;
  struct {
    double wait = 0, request_wait = 0, host = 0, request_host = 0, factor = 1, stream = 0;
  } serving_;
  double fills_ = 0, synchronizations_moe_ = 0, synchronizations_permute_ = 0, synchronizations_clamp_ = 0,
         synchronizations_slot_ = 0, messages_ = 0;
  double expert_tensor_ = 0;  // ranks whose chunks of rows are sorted with the rank's own; 0: a kernel sorts them
  bool issues_ = false, graphs_ = false, blocks_ = false;
  OperatorKind counted_at_ = OperatorKind::router;  // before it (dispatch) or after it the host waits for its counts
  double dispatches_ = 1, dispatch_gradients_ = 1;  // the collectives that send tokens, and those of their gradients
  double short_kernel_ = 0;                         // s of a kernel that moves little
  std::vector<std::string> captured_;               // the scopes that are captured
  Constant link_efficiency_, memory_bandwidth_;
  double link_ = 0;    // B/s per direction; 0: unknown
  double loader_ = 0;  // B/s of a node; 0: never the limit
  double bytes_per_token_ = 0;
  double nodes_ = 1;
};

}  // namespace plumbline::model
