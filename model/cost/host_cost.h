// HostCost predicts transfers between a GPU and its host and work on the host: offloaded optimizer states and
// activations, a moving average of the parameters, the tokens of a step. Formulas: docs/parallelism.md.
#pragma once

#include <cstdint>

#include "model/cost/constants.h"
#include "model/graph/graph.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"

namespace plumbline::model {

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

 private:
  Constant link_efficiency_, memory_bandwidth_;
  double link_ = 0;    // B/s per direction; 0: unknown
  double loader_ = 0;  // B/s of a node; 0: never the limit
  double bytes_per_token_ = 0;
  double nodes_ = 1;
};

}  // namespace plumbline::model
