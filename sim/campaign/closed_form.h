// Campaigns in closed form: intervals between checkpoints, and the goodput to expect.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/architecture/metrics.h"
#include "model/profile/cluster.h"
#include "model/result/result.h"
#include "sim/campaign/campaign_data.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

namespace plumbline::sim {

struct Inputs;

// How long checkpoints of a plan take.

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

// Returns the best interval between checkpoints that cost `stall_s` where failures come every `between_s`: Young 1974,
// sqrt(2 w M), and the higher order of Daly 2006 (doi 10.1016/j.future.2004.11.016).
double young_interval(double stall_s, double between_s);
double daly_interval(double stall_s, double between_s);

// Returns the share of a campaign's time that is useful, in closed form: the exact form of exponential failures,
// restarts and checkpoints (Daly's, with the delay until a checkpoint may be used as part of the restart), times what
// slow nodes, planned stops and health checks add, and the wait for nodes by Erlang's loss formula. 0: it never
// finishes. An interval of 0 stands for Daly's.
double expected_goodput(const CampaignInput& input);

// Returns the seconds of all steps of the phases.
double ideal_seconds(const std::vector<CampaignPhase>& phases);

// Returns the mean seconds between failures that stop the run; infinite: none does.
double seconds_between_failures(const CampaignInput& input);

// Returns the mean seconds from a failure to the first step, if nothing else fails and spares are there.
double down_seconds(const CampaignInput& input);

// Returns the shortest interval: a step, and what is written before the next checkpoint begins.
double shortest_interval(const CampaignInput& input);

// Returns Daly's interval between the shortest one and the whole run.
double closed_form_interval(const CampaignInput& input);

// The whole training that a predicted step belongs to.

// Returns the nodes of a data-parallel replica of the plan, which an elastic campaign loses as a whole.
std::int64_t replica_nodes(const model::Plan& plan, std::int64_t gpus_per_node);

// Returns model::run_cost() of a step of the plan; where run.goodput is "campaign" its goodput is the closed form of
// inputs.campaign (sim/campaign/campaign.h) with a phase of this step time. Nothing without run.tokens.
std::optional<model::RunCost> predicted_run(const Inputs& inputs, const model::Plan& plan,
                                            const model::StepTimes& step);

}  // namespace plumbline::sim
