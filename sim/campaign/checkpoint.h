// How long checkpoints of a plan take.
#pragma once

#include <cstdint>

#include "model/architecture/metrics.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "sim/campaign/campaign_data.h"

namespace plumbline::sim {

enum class CheckpointKind {
  synchronous,   // the run stands until it is written
  asynchronous,  // the run stands while it is copied to memory of the host, from where it is written
  neighbor       // likewise, but to memory of another node
};

struct CheckpointStorage {  // rates in B/s, of writing and reading
  double all = 0;           // of the parallel storage; 0: no limit but the nodes'
  double node = 0;          // of a node's way to it
  double ssd = 0;           // of a node's own SSDs
  std::int64_t every = 0;   // of checkpoints on nodes, so many to one that also goes to the parallel storage
  // Whatever the bytes: the ranks meet, look up their plan and hand their states to a writer; instead, where each only
  // sends what it holds to memory of another node; files are made, and metadata are gathered from all ranks.
  double stall_s = 0, neighbor_stall_s = 0, commit_s = 0;
};

// Returns the bytes of a checkpoint: parameters as the GEMMs hold them, master weights and moments, once each.
double checkpoint_bytes(const model::Plan& plan, const model::ModelMetrics& metrics);

// Returns the times of a checkpoint, of which each GPU holds an equal share; the interval is left at 0. It goes to the
// parallel storage or, with on_ssd, to the SSDs of the nodes, in the background also to that storage. A rate of 0 is
// unknown and costs no time.
CheckpointPolicy checkpoint_policy(CheckpointKind kind, bool on_ssd, double bytes, const model::ClusterShape& cluster,
                                   const CheckpointStorage& storage);

}  // namespace plumbline::sim
