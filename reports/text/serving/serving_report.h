// The output of `plumbline serve`: what a model costs to serve.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/validate/serving/serving_case.h"
#include "model/result/result.h"
#include "reports/text/table.h"
#include "sim/analysis/measured_step.h"
#include "sim/predict/inputs.h"

namespace plumbline::reports {

struct ServingReport {
  const sim::Inputs& inputs;  // of the prediction
  const model::ServingResult& result;
  std::vector<calibrate::ExampleFigure> published = {};  // of the inputs' plan
  std::optional<sim::MeasuredDeployment> measured = {};  // that was held against it
};

std::string serving_text(const ServingReport& report, Style style);
std::string serving_csv(const ServingReport& report);   // the frontier, a row each point
std::string serving_json(const ServingReport& report);  // in the envelope of reports/json/json.h
std::string serving_svg(const ServingReport& report);   // the frontier: tokens/s of a user against tokens/s of a GPU

// What the forms share.
// Returns "120 H800 (h800-...), engine deepseek; ..." as lines.
std::vector<std::string> serving_head(const ServingReport& report);

}  // namespace plumbline::reports
