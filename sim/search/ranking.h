// Which plan on which cluster is the better choice, and whether what is known suffices to say so.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::sim {

// What to choose by, and what must not be exceeded.
enum class Objective { time, cost, gpu_hours };
std::string_view to_string(Objective objective);  // "time" | "cost" | "gpu-hours"
model::Result<Objective> parse_objective(std::string_view text);

// "60d", "36h", "8w", "90min" in days. A number without a unit is an error.
model::Result<double> parse_days(std::string_view text);
// USD: "6e6", "6000000", "5.5M", "800k".
model::Result<double> parse_usd(std::string_view text);

struct Limits {
  std::optional<double> days;
  std::optional<double> usd;
  bool any() const { return days || usd; }
};

// A plan on a cluster of some size, as it counts in a ranking.
struct PlanCost {
  std::string errors;  // candidates with the same word are predicted with the same errors: cluster and profile
  double gpus = 0;
  double step_s = 0;
  std::optional<double> days, gpu_hours;         // of the run; nothing without its tokens
  std::optional<double> usd, usd_low, usd_high;  // nothing without tokens or price; low and high: of the price alone
  std::optional<double> uncertainty;             // of the step, relative, one standard deviation
};

// What an objective counts: days (without tokens seconds of a step), GPU-hours (GPU-seconds of a step), or USD.
std::optional<double> measure(const PlanCost& cost, Objective objective);

// Where the truth may lie. An error is predicted over true, less one, so the ends are measure / (1 + u) and
// measure / (1 - u), and for USD those of its lowest and highest price. Nothing where the uncertainty is not known.
struct Interval {
  double low = 0, high = 0;
};
std::optional<Interval> interval(const PlanCost& cost, Objective objective);

bool within(const PlanCost& cost, const Limits& limits);  // as predicted; an unknown price meets no budget

// Positions of the candidates, the best first: those within the limits, then the others; each by the measure, unknown
// measures last, equal ones in the given order.
std::vector<std::size_t> ranked(const std::vector<PlanCost>& candidates, Objective objective, const Limits& limits);

// Whether another cost needs no more days and no more USD, and less of one. Nothing where either is not known.
std::vector<std::optional<bool>> dominated(const std::vector<PlanCost>& candidates);

enum class Standing {
  ahead,             // the better one, as far as is known
  tie,               // the same errors, and less than 1 % apart
  indistinguishable  // other errors, and the intervals overlap or one is not known
};
// Of two candidates, `better` with the smaller measure. Where both have the same errors these cancel, and the order
// counts.
Standing standing(const PlanCost& better, const PlanCost& other, Objective objective);

struct Verdict {
  std::optional<std::size_t> winner;           // nothing: none is within the limits, or it cannot be said
  std::vector<std::size_t> indistinguishable;  // from the first of the ranking, by rank
  std::vector<std::size_t> ties;               // with it, by rank
};
Verdict verdict(const std::vector<PlanCost>& candidates, const std::vector<std::size_t>& order, Objective objective,
                const Limits& limits);

// Fewer GPUs waste less: without a deadline cost and GPU-hours choose the smallest cluster.
bool degenerate(const std::vector<PlanCost>& candidates, Objective objective, const Limits& limits);

}  // namespace plumbline::sim
