// Weeks of training as discrete events: failures, detection, restarts, spares, checkpoints, planned stops and phases.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/result/prediction_interval.h"
#include "sim/tasks/tasks.h"

namespace plumbline::sim {

// A kind of component that fails. Failures of one component are exponentially distributed in time.
struct FailureMode {
  std::string name;         // "faulty GPU", "network switch or cable", ...
  double per_gpu_hour = 0;  // failures of the run by GPU-hour
  double detect_s = 0;      // until the run has stopped for it
  double repair_s = 0;      // until its node is back; 0: a restart in place is enough
  double slows = 1;         // factor on the step while it lasts; 1: it stops the run
};

struct CheckpointPolicy {
  double interval_s = 0;  // 0: the best one is found
  double stall_s = 0;     // the run stands still while it is taken
  double write_s = 0;     // until it may be used, the stall included
  double load_s = 0;      // to read it at a restart
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
  double restart_s = 0;            // from a stop to the first step, the load of the checkpoint not included
  double swap_s = 0;               // to replace a node by a spare
  bool elastic = false;            // without spares the run goes on with fewer replicas
  std::int64_t replica_nodes = 1;  // nodes of a replica, which leaves as a whole
  double planned_stops_per_day = 0, planned_stop_s = 0;
  double health_check_every_s = 0, health_check_s = 0;  // slow nodes are found and leave; 0: never
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
  std::string what;  // "failure: faulty GPU", "checkpoint", "restart", ...
  double lost_s = 0;
  double progress = 0;  // share of all tokens
};

struct CampaignResult {
  std::string never;  // why it never finishes; empty: it does
  model::Quantiles days, goodput, interruptions;
  double mean_interruptions = 0, mean_goodput = 0;
  double hours_between_failures = 0;  // expected, of the whole run
  CampaignTime mean;
  double checkpoint_interval_s = 0;  // that was used
  double young_s = 0, daly_s = 0;    // their best intervals
  std::vector<double> days_of_seed;
  std::vector<CampaignEvent> events;
};

// Returns the campaign over all seeds, of which a task runs some. Errors: amounts that are negative or not finite.
model::Result<CampaignResult> run_campaign(const CampaignInput& input, Tasks& tasks = local_tasks());

}  // namespace plumbline::sim
