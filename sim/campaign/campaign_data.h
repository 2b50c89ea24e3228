// What a campaign is given and returns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "model/result/result.h"

namespace plumbline::sim {

// A kind of component that fails. Failures of one component are exponentially distributed in time.
struct FailureMode {
  std::string name;  // "faulty GPU", "network switch or cable", ...
  // Failures of the run by GPU-hour, of GPUs that train or restart; spare and waiting ones have none.
  double per_gpu_hour = 0;
  double detect_s = 0;  // until the run has stopped for it; of what slows: until it is found, 0: by health checks only
  double repair_s = 0;  // until its nodes are back, a mean; 0: a restart in place is enough; infinite: never
  std::int64_t nodes = 1;  // that leave with it, where they are repaired
  double slows = 1;        // factor on the step while it lasts; 1: it stops the run
  double lasts_s = 0;      // of what slows: until it ends by itself, a mean; 0: it lasts until it is found
};

struct CheckpointPolicy {
  double interval_s = 0;  // 0: the best one is found
  double stall_s = 0;     // the run stands still while it is taken
  double write_s = 0;     // until it may be used, the stall included
  double load_s = 0;      // to read it at a restart
  // Nodes that hold each part of it: 0: storage, which loses none; 1: the SSD of the node itself; 2: also its neighbor.
  // Where so many nodes leave at once, or a node before its neighbor has its part again, copies are lost.
  std::int64_t copies = 0;
  // Every so many copies on nodes one is also written to storage, from which a run restarts that lost them; 0: none is,
  // and the run restarts from its begin.
  std::int64_t storage_every = 0;
  double storage_stall_s = 0, storage_write_s = 0, storage_load_s = 0;  // as those above
  // Returns the seconds from a stall to the next one, which waits until what was saved is written.
  double pause_s() const { return std::max(interval_s, write_s - stall_s); }
};

struct CampaignPhase {  // of training, in order
  std::string name;
  double tokens = 0;
  double tokens_per_step = 0;
  double step_s = 0;
};

struct CampaignInput {
  std::int64_t gpus = 0, gpus_per_node = 8;
  std::vector<CampaignPhase> phases;
  std::vector<FailureMode> failures;
  CheckpointPolicy checkpoint;
  std::int64_t spare_nodes = 0;
  double restart_s = 0;            // from a stop to the first step, without swap and load of the checkpoint
  double swap_s = 0;               // to replace a node by a spare
  bool elastic = false;            // without spares the run goes on with fewer replicas
  std::int64_t replica_nodes = 1;  // nodes of a replica, which leaves as a whole
  double planned_stops_per_day = 0, planned_stop_s = 0;  // a checkpoint comes before, restart and load come after it
  double health_check_every_s = 0, health_check_s = 0;   // slow nodes are found and leave; 0: never
  std::int64_t seeds = 200;
  std::uint64_t seed = 1;
};

// Seconds of a campaign by what they went to. They add up to its duration.
struct CampaignTime {
  double useful_s = 0;                             // steps that count
  double lost_s = 0;                               // steps that were done again
  double checkpoint_s = 0;                         // stalls
  double detect_s = 0, restart_s = 0, wait_s = 0;  // wait_s: for nodes, where no spare was left
  double slow_s = 0;                               // what slow nodes, and missing replicas, made steps longer
  double planned_s = 0;                            // planned stops and health checks
  double total() const { return useful_s + lost_s + checkpoint_s + detect_s + restart_s + wait_s + slow_s + planned_s; }
};

struct CampaignEvent {  // of the first seed
  double time_s = 0;
  std::string what;  // "failure: faulty GPU", "restart", "waits for nodes", ...; no regular checkpoints
  double lost_s = 0;
  double progress = 0;  // share of all tokens
};

struct CampaignResult {
  bool complete = true;  // false: it was stopped, and is over fewer seeds
  std::string never;     // why it, or a share of its seeds, never finishes; empty: all do
  double finished = 0;   // share of seeds that finish. Quantiles are over all seeds, means over these
  model::Quantiles days, goodput, interruptions;  // days of a seed that never finishes are infinite, its goodput is 0
  double mean_interruptions = 0, mean_goodput = 0;
  std::vector<double> interruptions_of_mode;  // means, in the order of the failures; of what slows: how often it did
  double hours_between_failures = 0;          // that stop the run, expected; infinite: none does
  CampaignTime mean;
  double checkpoint_interval_s = 0;  // that was used
  double young_s = 0, daly_s = 0;    // their best intervals
  std::vector<double> days_of_seed;
  std::vector<CampaignEvent> events;
};

}  // namespace plumbline::sim
