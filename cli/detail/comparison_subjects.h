// What `compare` lays side by side: predictions of plans, and results that were stored as JSON, predicted or measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/result/comparison.h"
#include "sim/predict/simulate.h"

namespace plumbline::cli {

struct SubjectRequest {
  std::vector<std::string> subjects;   // files or names of plans, files of results
  std::vector<std::string> clusters;   // of one plan: a column for each
  std::vector<std::int64_t> gpus;      // of one plan: a column for each; the batch stays
  std::vector<std::string> overrides;  // for all plans
  std::optional<std::string> profile;  // for all plans
  sim::Fidelity fidelity = sim::Fidelity::step;
  bool timelines = false;                    // of plans; the closed form has none
  std::optional<std::string> baseline = {};  // a profile by which plans with a timeline are predicted as well
};

// Simulates the plans and reads the results. A plan on another cluster than its own loses what it says about its own
// (device, NICs, oversubscription, placement, profile), unless the overrides say it. Wrong input ends it.
model::Result<std::vector<model::ComparisonSubject>> comparison_subjects(const SubjectRequest& request);

}  // namespace plumbline::cli
