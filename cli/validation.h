// Validation cases evaluated: each figure as every profile predicts it, beside what was published and a
// naive baseline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/validate/figure_value.h"
#include "calibrate/validate/step_comparison.h"
#include "calibrate/validate/validation_case.h"

namespace plumbline::cli {

struct EvaluatedFigure {
  calibrate::Figure figure;
  std::vector<std::optional<double>> predicted;  // by profile of the case
  std::optional<double> naive;                   // where a constant MFU says something
  std::optional<bool> within;                    // by the plan's own profile; none where nothing is demanded
};

struct EvaluatedAggregate {
  calibrate::Aggregate aggregate;
  std::vector<std::optional<double>> values;  // by profile of the case
  bool within = false;                        // by the plan's own profile
};

struct EvaluatedCase {
  calibrate::ValidationCase definition;
  double naive_step_s = 0;
  std::vector<EvaluatedFigure> figures;
  std::vector<EvaluatedAggregate> aggregates;

  bool holds() const;  // everything demanded is met
};

// `predictions` by profile of the case. A figure of which something is demanded that the prediction lacks is not
// within it.
EvaluatedCase evaluate(const calibrate::ValidationCase& definition,
                       const std::vector<calibrate::Prediction>& predictions, const calibrate::Naive& naive);

// Relative; nullopt without a value.
std::optional<double> error_of(const calibrate::Figure& figure, std::optional<double> value);

std::string validation_table(const EvaluatedCase& evaluated);
std::string step_table(const calibrate::StepComparison& comparison);
std::string validation_json(const std::vector<EvaluatedCase>& cases,
                            const std::vector<calibrate::StepComparison>& step_cases = {});

}  // namespace plumbline::cli
