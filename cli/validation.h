// Validation cases evaluated: each figure as every profile predicts it, beside what was published and a
// naive baseline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/validation_case.h"
#include "model/result.h"

namespace plumbline::cli {

struct EvaluatedFigure {
  calibrate::Figure figure;
  std::vector<std::optional<double>> predicted;  // by profile of the case
  std::optional<double> naive;                   // where a constant MFU says something
  std::optional<bool> within;                    // the tolerance, by the plan's own profile; none without tolerance
};

struct EvaluatedCase {
  calibrate::ValidationCase definition;
  double naive_step_s = 0;
  std::vector<EvaluatedFigure> figures;

  bool holds() const;  // no tolerance is exceeded
};

// `results` by profile of the case. A figure with a tolerance that the result lacks is not within it.
EvaluatedCase evaluate(const calibrate::ValidationCase& definition, const std::vector<model::StepResult>& results,
                       const model::StepResult& naive);

std::string validation_table(const EvaluatedCase& evaluated);
std::string validation_json(const std::vector<EvaluatedCase>& cases);

}  // namespace plumbline::cli
