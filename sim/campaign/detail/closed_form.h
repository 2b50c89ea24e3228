// What the closed form of a campaign's goodput and its simulation share.
#pragma once

#include "sim/campaign/campaign.h"

namespace plumbline::sim {

// Returns the mean seconds between failures that stop the run; infinite: none does.
double seconds_between_failures(const CampaignInput& input);

// Returns the mean seconds from a failure to the first step, if nothing else fails and spares are there.
double down_seconds(const CampaignInput& input);

// Returns the shortest interval: a step, and what is written before the next checkpoint begins.
double shortest_interval(const CampaignInput& input);

// Returns Daly's interval between the shortest one and the whole run.
double closed_form_interval(const CampaignInput& input);

}  // namespace plumbline::sim
