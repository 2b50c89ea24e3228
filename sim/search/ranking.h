// Ranking of plans on clusters, and whether the known uncertainties suffice for a verdict.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::sim {

// The quantity to minimize.
enum class Objective { time, cost, gpu_hours };
std::string_view to_string(Objective objective);  // "time" | "cost" | "gpu-hours"
model::Result<Objective> parse_objective(std::string_view text);

// Returns days from "60d", "36h", "8w" or "90min". A number without a unit is an error.
model::Result<double> parse_days(std::string_view text);
// Returns USD from "6e6", "6000000", "5.5M" or "800k".
model::Result<double> parse_usd(std::string_view text);

// The days and USD that a run may take at most.
struct Limits {
  std::optional<double> days;
  std::optional<double> usd;
  bool any() const { return days || usd; }
};

// The cost of a plan on a cluster, as the ranking compares it.
struct PlanCost {
  std::string errors;  // cluster and profile: candidates with equal text have the same prediction errors
  double gpus = 0;
  double step_s = 0;
  std::optional<double> days, gpu_hours;         // of the run; nothing without its tokens
  std::optional<double> usd, usd_low, usd_high;  // nothing without tokens or price; low and high: of the price alone
  std::optional<double> uncertainty;             // of the step, relative, one standard deviation
};

// Returns days (without tokens, seconds of a step), GPU-hours (GPU-seconds of a step), or USD.
std::optional<double> measure(const PlanCost& cost, Objective objective);

// The interval of the true value; nothing where the uncertainty is not known. A relative error is predicted / true - 1,
// so the ends are measure / (1 + u) and measure / (1 - u). For USD they use the lowest and the highest price.
struct Interval {
  double low = 0, high = 0;
};
std::optional<Interval> interval(const PlanCost& cost, Objective objective);

bool within(const PlanCost& cost, const Limits& limits);  // as predicted; an unknown price meets no budget

// Returns the positions of the candidates, the best first: those within the limits, then the others. Each group is
// ordered by the measure, unknown measures last, equal ones in the given order.
std::vector<std::size_t> ranked(const std::vector<PlanCost>& candidates, Objective objective, const Limits& limits);

// Returns for each candidate whether another needs no more days and no more USD, and less of one. Nothing where either
// is not known.
std::vector<std::optional<bool>> dominated(const std::vector<PlanCost>& candidates);

// What of a prediction's error is not common to the plans of one run: the standard deviation of ln(predicted /
// measured) within runs of published and development steps, where plans differ in their schedules alone, and where they
// differ in degrees or micro-batches (`plumbline validate development-steps`, docs/validation.md). Plans less apart are
// a tie.
inline constexpr double schedule_scatter = 0.04, layout_scatter = 0.10;
double tie_margin(const model::Plan& plan, const model::Plan& other);

enum class Standing {
  ahead,             // better, as far as is known
  tie,               // the same prediction errors, and less than layout_scatter apart
  indistinguishable  // other prediction errors, and the intervals overlap or one is not known
};
// Compares two candidates; `better` has the smaller measure. Equal prediction errors cancel, so the order counts.
Standing standing(const PlanCost& better, const PlanCost& other, Objective objective);

struct Verdict {
  std::optional<std::size_t> winner;           // nothing: none within the limits, or none distinguishable
  std::vector<std::size_t> indistinguishable;  // from the first of the ranking, by rank
  std::vector<std::size_t> ties;               // with the first, by rank
};
Verdict verdict(const std::vector<PlanCost>& candidates, const std::vector<std::size_t>& order, Objective objective,
                const Limits& limits);

// Returns whether the objective alone decides the size: without a deadline, cost and GPU-hours choose the smallest
// cluster, because fewer GPUs waste less.
bool degenerate(const std::vector<PlanCost>& candidates, Objective objective, const Limits& limits);

}  // namespace plumbline::sim
