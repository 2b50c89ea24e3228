// The subjects of `compare`: predictions of plans, and results that were stored as JSON, predicted or measured.
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
  std::vector<std::string> clusters;   // for one plan: a column for each
  std::vector<std::int64_t> gpus;      // for one plan: a column for each; the batch stays
  std::vector<std::string> overrides;  // for all plans
  std::optional<std::string> profile;  // for all plans
  sim::Fidelity fidelity = sim::Fidelity::step;
  bool timelines = false;                    // of plans; the closed form has none
  std::optional<std::string> baseline = {};  // a second profile, which also predicts plans with a timeline
  bool intervals = false;                    // of plans
};

// Simulates the plans and reads the results. A plan on another cluster than its own loses its keys about that cluster
// (device, NICs, oversubscription, placement, profile), except those in the overrides. The first input error is
// returned.
model::Result<std::vector<model::ComparisonSubject>> comparison_subjects(const SubjectRequest& request);

}  // namespace plumbline::cli
