// Many simulations of related plans on all cores. The result does not depend on the number of threads and processes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "sim/predict/inputs.h"
#include "sim/predict/predictor.h"
#include "sim/predict/simulation.h"
#include "sim/tasks/tasks.h"
#include "sim/tasks/watch.h"
#include "sim/whatif/range.h"

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

// The findings of a sweep: its best point, the width of the plateau around it, where a quantity stays small, and the
// slowdown of GEMMs.

// Consecutive entries of a list, both ends included.
struct Stretch {
  std::size_t first = 0, last = 0;
  bool operator==(const Stretch&) const = default;
};

// Returns the position of the smallest cost, the first of equal ones. Entries without a value are skipped.
std::optional<std::size_t> cheapest(const std::vector<std::optional<double>>& costs);

// Returns the stretch around `best` whose costs are at most (1 + tolerance) times that of `best`. An entry without a
// value ends it.
Stretch plateau(const std::vector<std::optional<double>>& costs, std::size_t best, double tolerance);

// Returns all stretches with values of at most `limit`, in order. An entry without a value ends a stretch.
std::vector<Stretch> stretches_within(const std::vector<std::optional<double>>& values, double limit);

// Returns the seconds that compute waits for communication inside slots, mean over the pipeline ranks. Nothing where
// the fidelity does not resolve slots.
std::optional<double> exposed_seconds(const model::StepTimes& step);

// Returns the share of overlapped pairs in which compute waits for communication, or of all slots where the schedule
// has no overlapped pairs. Other slots do not count, because no overlap could hide what they expose.
std::optional<double> exposed_share(const model::StepTimes& step);

// Returns the seconds of GEMMs on rank 0; nothing where the fidelity does not resolve slots.
std::optional<double> gemm_seconds(const model::StepTimes& step);

// Returns per point gemm_seconds() over the smallest one of the points with the same work, device and profile. Nothing
// where either is not known.
std::vector<std::optional<double>> gemm_slowdowns(const std::vector<PointResult>& points);

struct SweepLimits {
  double plateau = 0.01;  // the plateau has points that are at most this much slower than the best
  double hidden = 0.02;   // communication is hidden where at most this share of the overlapped pairs waits for it
};

// The points that differ in the numeric key alone, by rising value. Stretches are positions in `points`.
struct SweepLine {
  std::vector<std::size_t> points;
  std::optional<std::size_t> best;  // position; nothing when no point is feasible
  Stretch plateau;                  // around the best
  std::size_t known = 0;            // number of points whose exposed communication is known
  std::vector<Stretch> hidden;      // where communication is hidden
  bool hidden_everywhere() const;
};

struct SweepResult {
  SweepGrid grid;
  Fidelity fidelity;
  SweepLimits limits;
  std::vector<PointResult> points;
  std::vector<std::optional<double>> gemm_slowdowns;  // per point
  std::vector<SweepLine> lines;
  // The feasible point with the most tokens/s in the middle of its interval; of deployments that with the cheapest
  // output tokens, prompts included, or with the most of a GPU where a price is not known. Nothing without a feasible
  // point.
  std::optional<std::size_t> best;
  model::Plan plan;         // of the best point, or of the first without one
  bool complete = true;     // false: stopped before every point was simulated
  bool same_tokens = true;  // a step of every point trains on as many tokens
  bool priced = false;      // deployments are compared by cost
};

// Return whether the points are deployments, or steps of reinforcement learning; those of a plan are all of one kind.
bool of_deployments(const SweepResult& result);
bool of_rollouts(const SweepResult& result);

// Returns whether the points have intervals: not, where nothing was simulated.
bool has_intervals(const SweepResult& result);

// Returns what a feasible point is compared by, less of which is better (SweepResult::best); nothing for others.
std::optional<double> cost(const SweepResult& result, std::size_t point);

// Returns the findings of the points; everything but `plan` and `complete`.
SweepResult sweep_result(SweepGrid grid, Fidelity fidelity, const SweepLimits& limits, std::vector<PointResult> points);

// Simulates every point of the grid. Errors: those of sweep().
model::Result<SweepResult> sweep(SweepGrid grid, const ChangedInputs& inputs, const SweepLimits& limits,
                                 const SweepOptions& options);

bool feasible(const PointResult& point);
// Returns why a point is not feasible, as a sentence without full stop; "" when it is.
std::string reason(const PointResult& point);
// Returns the exposed share of a point that was simulated; of reinforcement learning nothing, whose updates are a part.
std::optional<double> exposed_share(const PointResult& point);

}  // namespace plumbline::sim
