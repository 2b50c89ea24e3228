// The answer of `plan`: the cluster options by rank, the verdict, and the changes that would overturn it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/goodput/campaign_answer.h"
#include "sim/search/break_even.h"
#include "sim/search/cluster_option.h"
#include "sim/search/ranking.h"

namespace plumbline::sim {

// Returns the training of an option's first plan with failures, or nullptr where it is not known whether and when that
// ends.
const CampaignAnswer* known_training(const ClusterOption& option);

// Returns what the first plan of an option takes, in the middle, with failures where they are predicted: infinitely
// much where it does not end in half of the campaigns. Its draws remain those of the step: failures move the middle,
// and widen the range by little.
PlanCost taken_by(const ClusterOption& option);

// Changes that would overturn the choice, among the plans of the recommended option or between options.
struct BreakEvenSection {
  bool hardware = false;                  // true: between options
  std::vector<std::size_t> alternatives;  // positions in the ranking; without `hardware`, in the option's plans
  std::vector<BreakEven> break_evens;
};

struct PlanAnswer {
  std::string name;  // name of the model or plan
  std::vector<std::string> assumptions;
  std::vector<std::string> overrides;  // given with --set
  Objective objective = Objective::time;
  Limits limits;
  std::size_t top = 5;
  bool has_tokens = false;
  std::vector<ClusterOption> options;
  bool complete = true;      // false: stopped before everything was decided
  bool every_value = false;  // the search tries every value of each key, not only those that usually win
  // The following cover the options that have a plan, each with its best one, by what that takes with failures where
  // these are predicted.
  std::vector<std::size_t> order;              // indices of options, the best first
  std::vector<std::size_t> empty;              // indices of options without a plan
  std::vector<std::optional<bool>> dominated;  // in the order of `order`
  std::vector<double> best_with;               // probabilities_best(), in the order of `order`
  Verdict verdict;                             // of `best_with`: its positions are those of `order`
  // The position in `order` of the option to take: the winner, else the first; where it is not within the limits, the
  // first that is, else that which exceeds its worst one the least.
  std::size_t recommended = 0;
  std::vector<BreakEvenSection> break_evens;

  const ClusterOption& choice() const { return options[order[recommended]]; }
  const RankedPlan& best(std::size_t place) const { return options[order[place]].plans.front(); }
  PlanCost taken(std::size_t place) const { return taken_by(options[order[place]]); }
  // Returns the share of cases in which it keeps the limits, if it fits in memory, with failures where they are
  // predicted; nothing without draws.
  std::optional<double> probability_within(std::size_t place, const Limits& some) const;
  bool within_limits(std::size_t place) const { return within(taken(place), limits); }
  bool limits_met() const { return !order.empty() && within_limits(recommended); }  // by any option
};

// Fills order, empty, dominated, best_with, verdict and recommended, and `best_with` of each option, anew.
void rank(PlanAnswer& answer);

// Fills answer.break_evens: the recommended option's best plan against its next plans, and against the next options
// that are within the limits and no better in the middle. Requires a ranked answer with a plan.
void find_break_evens(PlanAnswer& answer, unsigned threads, const std::function<bool()>& stopped);

// Fills where the uncertainty of the recommended plan comes from, and what it assumes of the software. Requires a
// ranked answer with a plan. Errors: those of interval_of() and assumed_of_step().
model::Result<void> find_parts(PlanAnswer& answer, unsigned threads);

// Gives inputs the campaign of their plan, and returns the name of the rates of failures that it rests on.
using AddCampaign = std::function<model::Result<std::string>(Inputs& inputs)>;
// Fills the campaign of each option with a plan that has tokens: that of `campaign` for its first plan, with the fewest
// GPUs of the same degrees where there is a deadline. `load` reads the plan on other GPUs. A cluster without known
// rates of failures has none, and one whose phases cannot be predicted gets a note. Requires a ranked answer, and ranks
// it again by what was found. Errors: input errors of the campaign's keys.
model::Result<void> find_campaigns(PlanAnswer& answer, const AddCampaign& add_campaign, const LoadInputs& load,
                                   const PredictStep& predict, Tasks& tasks);

// Returns the share of trainings with failures that are within the limits, of two the smaller share; 0 where none ends,
// nothing where that or the price of a budget is not known.
std::optional<double> probability_within(const CampaignAnswer& campaign, const Limits& limits);

}  // namespace plumbline::sim
