// Which offer is the better one, and whether what is known suffices to say so. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan_question.h"

namespace plumbline::cli {

// A plan on a cluster of some size, as it counts in a ranking.
struct Offer {
  std::string errors;  // offers with the same word are predicted with the same errors: cluster and profile
  double gpus = 0;
  double step_s = 0;
  std::optional<double> days, gpu_hours;         // of the run; nothing without its tokens
  std::optional<double> usd, usd_low, usd_high;  // nothing without tokens or price; low and high: of the price alone
  std::optional<double> uncertainty;             // of the step, relative, one standard deviation
};

// What an objective counts: days (without tokens seconds of a step), GPU-hours (GPU-seconds of a step), or USD.
std::optional<double> measure(const Offer& offer, Objective objective);

// Where the truth may lie. An error is predicted over true, less one, so the ends are measure / (1 + u) and
// measure / (1 - u), and for USD those of its lowest and highest price. Nothing where the uncertainty is not known.
struct Interval {
  double low = 0, high = 0;
};
std::optional<Interval> interval(const Offer& offer, Objective objective);

bool within(const Offer& offer, const Limits& limits);  // as predicted; an unknown price meets no budget

// Positions of the offers, the best first: those within the limits, then the others; each by the measure, unknown
// measures last, equal ones in the given order.
std::vector<std::size_t> ranked(const std::vector<Offer>& offers, Objective objective, const Limits& limits);

// Whether another offer needs no more days and no more USD, and less of one. Nothing where either is not known.
std::vector<std::optional<bool>> dominated(const std::vector<Offer>& offers);

enum class Standing {
  ahead,             // the better one, as far as is known
  tie,               // the same errors, and less than 1 % apart
  indistinguishable  // other errors, and the intervals overlap or one is not known
};
// Of two offers, `better` with the smaller measure. Where both have the same errors these cancel, and the order counts.
Standing standing(const Offer& better, const Offer& other, Objective objective);

struct Verdict {
  std::optional<std::size_t> winner;           // nothing: none is within the limits, or it cannot be said
  std::vector<std::size_t> indistinguishable;  // from the first of the ranking, by rank
  std::vector<std::size_t> ties;               // with it, by rank
};
Verdict verdict(const std::vector<Offer>& offers, const std::vector<std::size_t>& order, Objective objective,
                const Limits& limits);

// Fewer GPUs waste less: without a deadline cost and GPU-hours choose the smallest cluster.
bool degenerate(const std::vector<Offer>& offers, Objective objective, const Limits& limits);

}  // namespace plumbline::cli
