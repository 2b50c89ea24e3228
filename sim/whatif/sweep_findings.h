// The findings of a sweep: its best point, the width of the plateau around it, where a quantity stays small, and the
// slowdown of GEMMs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/whatif/range.h"
#include "sim/whatif/sweep.h"

namespace plumbline::sim {

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
