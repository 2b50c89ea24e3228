// Many simulations of related plans on all cores. The result does not depend on the number of threads and processes.
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
#include "sim/tasks/tasks.h"
#include "sim/tasks/watch.h"

namespace plumbline::sim {

// What a sweep keeps of a prediction.
struct SweepPoint {
  // Without lost time, provenance and assumed keys. Its memory has the ranks where it has an interval or does not fit;
  // of a deployment only memory and basis are known.
  model::StepResult result;
  std::string infeasible_reason;  // why it does not fit in memory or keep its limits; "" when it does or may
  // Of a deployment, which has no step: without frontier, constants and notes; its interval where it was asked for.
  std::optional<model::ServingResult> serving = std::nullopt;
};

using PointResult = model::Result<SweepPoint>;

// Returns the seconds of the step in the middle of its interval: of reinforcement learning where a point has that.
inline double middle_seconds(const SweepPoint& point) {
  const auto& rollout = point.result.rollout;
  return rollout ? model::middle_rollout(*rollout).step_s : model::middle_step(point.result).time_s;
}

// Makes the inputs of a point. Several threads call it at once; large sweeps call it more than once per point.
using SweepInputs = std::function<model::Result<Inputs>(std::size_t point)>;

// Makes the inputs of the plan with changes KEY=VALUE. Called like SweepInputs.
using ChangedInputs = std::function<model::Result<Inputs>(const std::vector<std::string>& changes)>;

struct SweepOptions {
  Fidelity fidelity = Fidelity::step;  // of steps
  // Of the points, without parts. With the step fidelity and wiring they run on the SimGrid loop, as simulate() on a
  // network, so that both state the same step of a plan; else transfers run as if alone on their links.
  bool intervals = false;
  unsigned threads = 0;           // of this process; 0: one per core
  Tasks* tasks = &local_tasks();  // each point is a task
  Watch watch = {};               // of the points; those that were not begun when it stopped are infeasible
  // Shared by consecutive sweeps; null: the sweep makes its own.
  std::shared_ptr<PredictorPool> predictors = nullptr;
};

// Predicts all points: steps, those of reinforcement learning, and deployments (model::is_deployment) in their steady
// state. An infeasible point keeps its error and the sweep continues. Wrong input ends the sweep with the error of the
// first such point.
model::Result<std::vector<PointResult>> sweep(std::size_t points, const SweepInputs& inputs,
                                              const SweepOptions& options);

}  // namespace plumbline::sim
