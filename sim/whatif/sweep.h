// Many simulations of related plans on all cores. The result does not depend on the number of threads.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/result/result.h"
#include "sim/predict/inputs.h"
#include "sim/predict/predictor_pool.h"
#include "sim/predict/simulation.h"

namespace plumbline::sim {

// What a sweep keeps of one simulation.
struct SweepPoint {
  model::StepTimes step;
  std::optional<double> bound_s;          // proven lower bound, seconds
  std::optional<double> flops_at_peak_s;  // as in model::StepResult
  std::string device, profile;
  double peak_bytes = 0, capacity_bytes = 0;
  std::string infeasible_reason;      // why it does not fit in memory, "" when it does
  std::optional<model::RunCost> run;  // nothing without run.tokens
};

// What a point keeps of its result: what a metric is read from.
model::StepResult step_result(const SweepPoint& point, Fidelity fidelity);

// Makes the inputs of a point. Called from several threads at once, and for a point more than once where there are
// many.
using SweepInputs = std::function<model::Result<Inputs>(std::size_t point)>;

// Makes the inputs of the plan with changes KEY=VALUE over its own. Called like SweepInputs.
using ChangedInputs = std::function<model::Result<Inputs>(const std::vector<std::string>& changes)>;

struct SweepOptions {
  Fidelity fidelity = Fidelity::step;
  unsigned threads = 0;  // 0: as many as cores
  // After each point, one call at a time; may be empty.
  std::function<void(std::size_t done, std::size_t total)> on_progress;
  // Of sweeps that follow each other; null: the sweep has its own.
  std::shared_ptr<PredictorPool> predictors = nullptr;
};

// A point that cannot be (infeasible) keeps its error and the sweep goes on. Wrong input ends the sweep with the
// error of the first such point.
model::Result<std::vector<model::Result<SweepPoint>>> sweep(std::size_t points, const SweepInputs& inputs,
                                                            const SweepOptions& options);

}  // namespace plumbline::sim
