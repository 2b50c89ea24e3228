// How often the components of a cluster fail, how long restarts and repairs take, and how fast checkpoints are stored:
// data with their sources, and their reader.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/provenance.h"
#include "sim/campaign/campaign.h"
#include "sim/campaign/closed_form.h"

namespace plumbline::calibrate {

struct Reliability {
  std::string name, description;
  std::vector<std::string> devices;        // those whose clusters it stands for, other data missing
  std::vector<sim::FailureMode> failures;  // in alphabetical order
  double restart_s = 0, swap_s = 0;        // as those of sim::CampaignInput
  sim::CheckpointStorage storage;
  std::vector<model::Parameter> parameters;  // every constant above, with its source
};

// Reads a file of tables of constants: [observed] gpu_days; [failure.<name>] count (in those GPU-days) and, where they
// are not as in [default], detect, repair, nodes, slows, lasts; [default] detect and repair; [restart] time, swap;
// [storage] all, node, ssd, every; [checkpoint] stall, neighbor_stall, commit, 0 where it does not have them. Errors:
// file, line and key of unknown or missing entries, wrong units and values.
model::Result<Reliability> load_reliability(const std::string& path);

// Reads the first file of the folder that stands for the device. Errors: none does.
model::Result<Reliability> reliability_of_device(const std::string& folder, const std::string& device);

}  // namespace plumbline::calibrate
