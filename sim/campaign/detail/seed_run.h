// One run of a campaign from event to event.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sim/campaign/campaign_data.h"

namespace plumbline::sim {

inline constexpr double never = std::numeric_limits<double>::infinity();  // s

enum class Stuck { no, nodes, progress };  // why a run ended before its last token

struct SeedOutcome {
  CampaignTime time;
  double interruptions = 0;
  Stuck stuck = Stuck::no;
  std::vector<double> of_mode;  // occurrences of each kind of failure
};

// Runs one seed with the checkpoint interval of the input, which is above 0. Draws depend on the seed, the kind of
// failure and how often it has failed, so that inputs that differ elsewhere meet the same failures.
SeedOutcome run_seed(const CampaignInput& input, std::uint64_t seed, std::vector<CampaignEvent>* events = nullptr);

}  // namespace plumbline::sim
