// Validation cases evaluated: each figure as every profile predicts it, next to the published value and a naive
// baseline.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/validate/figure_value.h"
#include "calibrate/validate/validation_case.h"
#include "model/base/error.h"
#include "sim/predict/predictor_pool.h"
#include "sim/predict/simulate.h"

namespace plumbline::calibrate {

struct EvaluatedFigure {
  Figure figure;
  std::vector<std::optional<double>> predicted;            // by profile of the case
  std::vector<std::optional<model::Quantiles>> intervals;  // by profile; nothing where a profile has none
  std::optional<double> naive;                             // where a constant MFU determines the figure
  std::optional<bool> within;  // by the plan's own profile; nullopt where there is no tolerance
};

struct EvaluatedAggregate {
  Aggregate aggregate;
  std::vector<std::optional<double>> values;  // by profile of the case
  bool within = false;                        // by the plan's own profile
};

struct EvaluatedCase {
  ValidationCase definition;
  double naive_step_s = 0;
  std::vector<EvaluatedFigure> figures;
  std::vector<EvaluatedAggregate> aggregates;

  bool holds() const;  // every tolerance is met
};

// Evaluates a case; `predictions` are by profile of the case. A figure with a tolerance but no prediction is not within
// it.
EvaluatedCase evaluate(const ValidationCase& definition, const std::vector<Prediction>& predictions,
                       const Naive& naive);

// Returns the relative error; nullopt without a value.
std::optional<double> error_of(const Figure& figure, std::optional<double> value);

// Evaluates cases by their plans and profiles. Each plan is simulated once per profile, because several cases may use
// the same step.
class CaseRuns {
 public:
  // Loads what a simulation of a named plan with a named profile needs.
  using Loader = std::function<model::Result<sim::Inputs>(const std::string& plan, const std::string& profile)>;

  explicit CaseRuns(Loader load) : load_(std::move(load)) {}
  // Evaluates one case; the first error of the loader or of the simulation is returned.
  model::Result<EvaluatedCase> evaluate(const ValidationCase& definition);

 private:
  struct Run {
    sim::Inputs inputs;
    std::optional<model::StepResult> step;
    sim::StepDraws draws;
    std::optional<SingleKernels> kernels;
    std::optional<SingleAllToAlls> all_to_alls;
  };
  model::Result<const Run*> run_of(const std::string& plan, const std::string& profile, const Needs& needs);

  Loader load_;
  sim::PredictorPool predictors_;
  std::map<std::pair<std::string, std::string>, Run> runs_;  // by plan and profile
};

}  // namespace plumbline::calibrate
