// Validation cases evaluated: each figure as every profile predicts it, beside what was published and a
// naive baseline.
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
  std::vector<std::optional<double>> predicted;  // by profile of the case
  std::optional<double> naive;                   // where a constant MFU says something
  std::optional<bool> within;                    // by the plan's own profile; none where nothing is demanded
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

  bool holds() const;  // everything demanded is met
};

// `predictions` by profile of the case. A figure of which something is demanded that the prediction lacks is not
// within it.
EvaluatedCase evaluate(const ValidationCase& definition, const std::vector<Prediction>& predictions,
                       const Naive& naive);

// Relative; nullopt without a value.
std::optional<double> error_of(const Figure& figure, std::optional<double> value);

// Evaluates cases by their plans and profiles. What a plan gives with a profile is computed once, because several cases
// may look at the same step.
class CaseRuns {
 public:
  // Loads what a simulation of a named plan with a named profile needs.
  using Loader = std::function<model::Result<sim::Inputs>(const std::string& plan, const std::string& profile)>;

  explicit CaseRuns(Loader load) : load_(std::move(load)) {}
  // An error of the loader or of the simulation ends it.
  model::Result<EvaluatedCase> evaluate(const ValidationCase& definition);

 private:
  struct Run {
    sim::Inputs inputs;
    std::optional<model::StepResult> step;
    std::optional<SingleKernels> kernels;
    std::optional<SingleAllToAlls> all_to_alls;
  };
  model::Result<const Run*> run_of(const std::string& plan, const std::string& profile, const Needs& needs);

  Loader load_;
  sim::PredictorPool predictors_;
  std::map<std::pair<std::string, std::string>, Run> runs_;  // by plan and profile
};

}  // namespace plumbline::calibrate
