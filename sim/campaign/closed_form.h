// Campaigns in closed form: intervals between checkpoints, and the goodput to expect.
#pragma once

#include <vector>

#include "sim/campaign/campaign_data.h"

namespace plumbline::sim {

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

}  // namespace plumbline::sim
