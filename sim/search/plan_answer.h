// Which cluster and plan to take: the options by rank, the verdict, and what would overturn it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/search/break_even.h"
#include "sim/search/cluster_option.h"
#include "sim/search/ranking.h"

namespace plumbline::sim {

// Changes that would overturn the choice among other plans of the first option, or between it and the others.
struct BreakEvenSection {
  bool hardware = false;                  // other options
  std::vector<std::size_t> alternatives;  // positions in the ranking; without `hardware` in the first option's plans
  std::vector<BreakEven> break_evens;
};

struct PlanAnswer {
  std::string name;  // of the model or plan
  std::vector<std::string> assumptions;
  std::vector<std::string> overrides;  // of --set
  Objective objective = Objective::time;
  Limits limits;
  std::size_t top = 10;
  bool has_tokens = false;
  std::vector<ClusterOption> options;
  bool complete = true;      // false: stopped before everything was looked at
  bool every_value = false;  // of each key, not only those that usually win
  // Over the options that have a plan, each with its best one.
  std::vector<std::size_t> order;              // options, the best first
  std::vector<std::size_t> empty;              // options without a plan
  std::vector<std::optional<bool>> dominated;  // as `order`
  Verdict verdict;                             // of options
  std::vector<BreakEvenSection> break_evens;

  const ClusterOption& first() const { return options[order.front()]; }
  const RankedPlan& best(std::size_t place) const { return options[order[place]].plans.front(); }
};

// Fills order, dominated and verdict.
void rank(PlanAnswer& answer);

// The first option's best plan against the next ones there, and against the next options: fills answer.break_evens.
// Needs a ranked answer with a plan.
void find_break_evens(PlanAnswer& answer, unsigned threads, const std::function<bool()>& stopped);

}  // namespace plumbline::sim
