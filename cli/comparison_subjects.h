// What `compare` lays side by side: predictions of plans, and results that were stored as JSON, predicted or measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "model/result/timeline.h"
#include "sim/predict/simulate.h"

namespace plumbline::cli {

struct ComparisonSubject {
  std::string name;                         // short, differs from the others'
  std::string origin;                       // "plan" or "result"
  model::Plan plan;                         // of a result what it stored of it
  model::Result<model::StepResult> result;  // an infeasible plan keeps its reason
  std::string stored;                       // of a result: the JSON as it was read
  model::Timeline timeline = {};            // of a measured result, and of a plan when asked for; else empty
  std::vector<std::string> rank_names = {};
  std::map<std::string, std::string> operator_classes = {};  // of a plan with a timeline: rows of the breakdown by name
  std::string baseline = {};                                 // another profile, by which the plan was predicted too
  model::Timeline baseline_timeline = {};
  // Of a measured result: its clock, and the steps whose median it is.
  std::string clock = {};
  std::vector<double> measured_seconds = {};

  bool measured() const { return result && result->fidelity == "measured"; }
  // A sentence without full stop why it cannot be or does not fit; "" when it does.
  std::string obstacle() const;
};

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

// Whether the subject is a stored result: a file that ends in .json or begins with a brace.
bool is_result(const std::string& subject);

// Simulates the plans and reads the results. A plan on another cluster than its own loses what it says about its own
// (device, NICs, oversubscription, placement, profile), unless the overrides say it. Wrong input ends it.
model::Result<std::vector<ComparisonSubject>> comparison_subjects(const SubjectRequest& request);

}  // namespace plumbline::cli
