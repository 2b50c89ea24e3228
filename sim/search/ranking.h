// Ranking of plans on clusters, and whether the known uncertainties suffice for a verdict.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/result/result.h"

namespace plumbline::sim {

// The quantity to minimize or, of deployments that serve, what they should be best in.
enum class Objective { time, cost, gpu_hours, throughput, latency, tokens_per_dollar };
std::string_view to_string(Objective objective);  // "time" | "cost" | "gpu-hours" | "throughput" | ...
inline bool serves(Objective objective) { return objective >= Objective::throughput; }
model::Result<Objective> parse_objective(std::string_view text);

// Returns days from "60d", "36h", "8w" or "90min". A number without a unit is an error.
model::Result<double> parse_days(std::string_view text);
// Returns USD from "6e6", "6000000", "5.5M" or "800k".
model::Result<double> parse_usd(std::string_view text);
// Returns tokens from "5T", "14.8T", "300B" or "1e12".
model::Result<double> parse_tokens(std::string_view text);

// The days and USD that a run may take at most.
struct Limits {
  std::optional<double> days;
  std::optional<double> usd;
  bool any() const { return days || usd; }
};

// The cost of a plan on a cluster, as the ranking compares it: the middle of its interval (model/result/result.h).
struct PlanCost {
  double gpus = 0;
  double step_s = 0;
  std::optional<double> days, gpu_hours;  // of the run; nothing without its tokens
  std::optional<double> usd;              // nothing without tokens or price
  // Draw by draw, over the middle: the step with what is left, infinite where the plan does not fit in memory,
  // and the price of a GPU-hour. The same index is the same draw in every plan and on every cluster, so that errors
  // that plans share cancel. Both have one size; 0: not drawn.
  std::vector<double> time_draws, price_draws;
};

// Returns days (without tokens, seconds of a step), GPU-hours (GPU-seconds of a step), or USD; nothing for objectives
// of deployments that serve.
std::optional<double> measure(const PlanCost& cost, Objective objective);

bool within(const PlanCost& cost, const Limits& limits);  // as predicted; an unknown price meets no budget

// Returns whether two plans on one cluster are twins: the same work in the same time and memory, to rounding, so that
// nothing but the words differ, as schedules do that order the same slots.
bool are_twins(const model::StepResult& a, const model::StepResult& b);

// Returns the positions of the candidates, the best first: those within the limits, then the others. Each group is
// ordered by the measure, unknown measures last, equal ones by USD, then in the given order.
std::vector<std::size_t> ranked(const std::vector<PlanCost>& candidates, Objective objective, const Limits& limits);

// Returns for each candidate whether another needs no more days and no more USD, and less of one. Nothing where either
// is not known or the training never ends.
std::vector<std::optional<bool>> dominated(const std::vector<PlanCost>& candidates);

// Returns the share, of the draws in which the plan fits in memory, in which the limits hold; nothing where it never
// fits, or without draws. With what probability it fits is an answer of its own, so that no draw is lost twice.
std::optional<double> probability_within(const PlanCost& cost, const Limits& limits);

// Returns the share of the draws in which each candidate is the best of those that are within the limits and fit. The
// sum is 1 less the share of draws in which none is. Equal values share a draw. Empty where one has no draws.
std::vector<double> probabilities_best(const std::vector<PlanCost>& candidates, Objective objective,
                                       const Limits& limits);

// Returns the share of the draws in which the first has the smaller measure, or fits where the second does not; equal
// ones count half. Nothing without draws.
std::optional<double> probability_better(const PlanCost& first, const PlanCost& second, Objective objective);

// The probability from which on a candidate is called the best: as the intervals, eight of ten cases. Assumed: it is
// what a decision needs, not what a measurement gives.
inline constexpr double sure_enough = 0.8;

struct Verdict {
  std::optional<std::size_t> winner;  // nothing: no candidate is the best with sure_enough
  // Without a winner: the fewest candidates of which one is the best with sure_enough, the most probable first; all
  // that ever are the best where they do not reach it.
  std::vector<std::size_t> contenders;
};
// Judges by probabilities_best().
Verdict verdict(const std::vector<double>& probabilities);

// Returns whether the objective alone decides the size: without a deadline, cost and GPU-hours choose the smallest
// cluster, because fewer GPUs waste less.
bool degenerate(const std::vector<PlanCost>& candidates, Objective objective, const Limits& limits);

}  // namespace plumbline::sim
