// Weeks of training as discrete events: failures, detection, restarts, spares, checkpoints, planned stops and phases.
#pragma once

#include "model/base/error.h"
#include "sim/campaign/campaign_data.h"
#include "sim/tasks/tasks.h"
#include "sim/tasks/watch.h"

namespace plumbline::sim {

// Returns the campaign over all seeds, of which a task runs some; of one that is stopped, over those that were run.
// Errors: amounts that are negative or not finite, and runs with more than a million failures, stops and checks;
// ErrorKind::interrupted where it is stopped before a seed was run at the interval of its checkpoints.
model::Result<CampaignResult> run_campaign(const CampaignInput& input, Tasks& tasks = local_tasks(),
                                           const Watch& watch = {});

}  // namespace plumbline::sim
