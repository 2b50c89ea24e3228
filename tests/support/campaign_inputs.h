// Campaigns of one phase and one kind of failure.
#pragma once

#include "sim/campaign/campaign.h"

namespace plumbline::tests {

inline constexpr double day_s = 86400, hour_s = 3600;

// A step of a second on 64 GPUs, for some days; each failure of the run comes `between_s` after the last one on
// average.
inline sim::CampaignInput campaign_of(double days, double between_s) {
  sim::CampaignInput input;
  input.gpus = 64;
  input.phases = {{"pretraining", days * day_s, 1, 1}};
  if (between_s > 0) input.failures = {{.name = "GPU", .per_gpu_hour = hour_s / between_s / 64}};
  input.seeds = 100;
  return input;
}

}  // namespace plumbline::tests
