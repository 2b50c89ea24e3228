// The interval between checkpoints with which a campaign is shortest.
#pragma once

#include <functional>

#include "model/base/error.h"
#include "sim/campaign/campaign_data.h"

namespace plumbline::sim {

// Returns the total seconds of all seeds of a campaign whose interval is set; infinite where one never finishes.
using CampaignSeconds = std::function<model::Result<double>(const CampaignInput&)>;

// Searches around the input's interval with the same failures for every interval tried. Failures meet checkpoints at
// random, so times scatter around their mean: the best of them lies where the form a / interval + b interval + c is
// smallest that fits them best.
model::Result<double> best_interval(const CampaignInput& input, const CampaignSeconds& seconds);

}  // namespace plumbline::sim
