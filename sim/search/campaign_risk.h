// What failures add to a training whose plan was ranked by its steps alone.
#pragma once

#include <optional>
#include <string>

#include "model/base/error.h"
#include "model/result/prediction_interval.h"
#include "model/result/result.h"
#include "sim/campaign/campaign_data.h"
#include "sim/predict/inputs.h"
#include "sim/search/ranking.h"
#include "sim/tasks/tasks.h"

namespace plumbline::sim {

struct CampaignRisk {
  CampaignInput input;
  CampaignResult result;  // at the predicted step
  std::string rates;      // of failures: the name of what they rest on
  // With failures: a draw is a draw of the step with a campaign of its own. Days, GPU-hours and USD are those at the
  // mean goodput; nothing where no campaign ends.
  PlanCost cost;
  // The intervals of the step's result with failures, over the draws in which the plan fits in memory; infinite where a
  // campaign never ends. Nothing where the result has none or no draw fits.
  std::optional<model::Quantiles> days, usd;
};

// Returns the campaigns of a plan with tokens, with the batch of the plan from the first token to the last. `inputs`
// have the plan and its campaign, `cost` the draws of its step. Errors: those of run_campaign().
model::Result<CampaignRisk> campaign_risk(const Inputs& inputs, const model::StepResult& step, const PlanCost& cost,
                                          Tasks& tasks);

}  // namespace plumbline::sim
