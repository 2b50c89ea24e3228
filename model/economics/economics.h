// Converts a step time to days, GPU-hours, money and energy.
#pragma once

#include <optional>
#include <string>

#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/result/result.h"

namespace plumbline::model {

// The share of a campaign's seconds that are useful, and what it rests on in words.
struct CampaignGoodput {
  double value = 1;
  std::string source;
};

// Returns nullopt without run.tokens. steps = tokens / (global batch * sequence length); GPU-hours = steps * step time
// * GPUs / 3600, both over the goodput: run.goodput of the plan where it is a number, `campaign` where it is
// "campaign", else 1. Phases stated in the plan are added with kind "published" at the same price. The price and power
// of a GPU-hour are those of model/economics/ownership.h. gpu_power_w is what a GPU draws on average, where that is
// known; else it is taken to draw its limit. It is cheap and reads no files.
std::optional<RunCost> run_cost(const Plan& plan, double step_time_s, const ClusterShape& cluster,
                                std::optional<double> gpu_power_w = std::nullopt,
                                const std::optional<CampaignGoodput>& campaign = std::nullopt);

}  // namespace plumbline::model
