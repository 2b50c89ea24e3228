// Many simulations of related plans on all cores. The result does not depend on the number of threads and processes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/result/middle.h"
#include "model/result/result.h"
#include "model/result/serving_result.h"
#include "sim/predict/inputs.h"
#include "sim/predict/predictor_pool.h"
#include "sim/predict/simulation.h"
#include "sim/tasks/tasks.h"
#include "sim/tasks/watch.h"

namespace plumbline::sim {

// The part of one simulation that a sweep keeps.
struct SweepPoint {
  model::StepTimes step;
  std::optional<double> bound_s;          // proven lower bound, seconds
  std::optional<double> flops_at_peak_s;  // as in model::StepResult
  std::vector<std::string> warnings;      // the same
  std::string device, profile, stack;
  model::Memory memory;               // with an interval: of all ranks, and how probable it is to fit
  std::string infeasible_reason;      // why it does not fit in memory or keep its limits; "" when it does or may
  std::optional<model::RunCost> run;  // nothing without run.tokens
  std::optional<model::PredictionInterval> interval;  // where it was asked for
  // Of a deployment, which has no step: without frontier, constants and notes; its interval where it was asked for.
  std::optional<model::ServingResult> serving = std::nullopt;
  std::optional<model::RolloutResult> rollout = std::nullopt;  // of a plan with [rollout], whose update is `step`
};

using PointResult = model::Result<SweepPoint>;

// Returns the step in the middle of its interval (model/result/middle.h), by which points are compared.
inline model::StepTimes middle_step(const SweepPoint& point) { return model::middle_step(point.step, point.interval); }

// Returns the seconds of the step in the middle of its interval: of reinforcement learning where a point has that.
inline double middle_seconds(const SweepPoint& point) {
  return point.rollout ? model::middle_rollout(*point.rollout).step_s : middle_step(point).time_s;
}

// Returns the result from which metrics of a point are read.
model::StepResult step_result(const SweepPoint& point, Fidelity fidelity);

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
