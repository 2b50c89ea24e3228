// Validation cases as data: a plan, what was published about it, with tolerance and source. They
// validate; no constant is ever fitted to them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/cluster.h"
#include "model/error.h"
#include "model/plan.h"
#include "model/result.h"

namespace plumbline::calibrate {

struct Figure {
  std::string metric;  // key of the JSON result, e.g. "step.slots_s.FB", or a sum (calibrate/metric.h)
  std::string name;    // for people
  std::string unit;    // of value; times in the result are seconds
  double value = 0;
  double scale = 1;                 // result * scale is in `unit`
  std::optional<double> tolerance;  // relative, checked with the plan's own profile; none: shown only
  std::string source;
};

struct ValidationCase {
  std::string name;
  std::string plan;                   // name of a shipped example
  std::vector<std::string> profiles;  // in order of rising evidence; the last is the plan's own
  double naive_mfu = 0;               // the baseline: one constant share of the dense BF16 peak
  std::string naive_source;
  std::vector<Figure> figures;
};

// Reads one case file. Errors name file, line and key.
model::Result<ValidationCase> load_case(const std::string& path);

// The predicted value of a figure in its unit; nullopt when the result does not have the metric.
std::optional<double> predicted(const Figure& figure, const model::StepResult& result);

// What a constant share of the dense BF16 peak gives for a plan: step time, tokens per second, run.
model::StepResult naive_result(const model::Plan& plan, const model::Architecture& architecture,
                               const model::ClusterShape& cluster, double mfu);

// The baseline's value of a figure; nullopt where a step time alone says nothing about it.
std::optional<double> baseline(const Figure& figure, const model::StepResult& naive);

}  // namespace plumbline::calibrate
