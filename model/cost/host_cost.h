// What goes between a GPU and its host, and what the host computes: offloaded optimizer states and activations, a
// moving average of the parameters, the tokens of a step. Formulas: docs/parallelism.md.
#pragma once

#include <cstdint>

#include "model/cost/constants.h"
#include "model/graph/graph.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"

namespace plumbline::model {

class HostCost {
 public:
  // Input error when the profile lacks a constant. A device whose link to the host nobody states copies nothing:
  // infeasible where the plan asks for it.
  static Result<HostCost> make(const Profile& profile, const ClusterShape& cluster, const Plan& plan);

  // copy_to_host, copy_to_device: the bytes on the host's side over the link, the other direction at rest or not; s.
  double copy(const Graph& graph, const Operator& op) const;
  Share copy_share(const Graph& graph, const Operator& op) const;
  // AdamW on the host: every state read and written once, by the GPU's share of the host's memory bandwidth; s.
  double update(const Graph& graph, const Operator& op) const;
  // Tokens of one step for one GPU, `rank_tokens` of its own out of `step_tokens` of the whole step: what the loaders
  // of its node and the link to it need, s. They run at the same time.
  double input(double rank_tokens, double step_tokens) const;

 private:
  Constant link_efficiency_, memory_bandwidth_;
  double link_ = 0;    // B/s per direction; 0: unknown
  double loader_ = 0;  // B/s of a node; 0: never the limit
  double bytes_per_token_ = 0;
  double nodes_ = 1;
};

}  // namespace plumbline::model
