// Weeks of training as discrete events: failures, detection, restarts, spares, checkpoints, planned stops and phases.
#pragma once

#include "model/base/error.h"
#include "sim/campaign/campaign_data.h"
#include "sim/tasks/tasks.h"

namespace plumbline::sim {

// Returns the campaign over all seeds, of which a task runs some. Errors: amounts that are negative or not finite, and
// runs with more than a million failures, stops and checks.
model::Result<CampaignResult> run_campaign(const CampaignInput& input, Tasks& tasks = local_tasks());

}  // namespace plumbline::sim
