// What a whole training takes with its failures, and what would change it: checkpoints, spares, GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/result/result.h"
#include "sim/campaign/campaign.h"

namespace plumbline::sim {

struct Inputs;

// A campaign that differs from the plan's in one value.
struct CampaignPoint {
  std::string name;  // "best", "Young", ...; empty: the value is its name
  double value = 0;  // seconds between checkpoints, as they were, or spare nodes
  model::Quantiles days;
  double goodput = 0;  // mean
};

// The campaign on a number of GPUs, with data-parallel ranks in proportion.
struct CampaignOnGpus {
  std::int64_t gpus = 0;
  double step_s = 0;  // of the last phase
  model::Quantiles days;
  double in_time = 0;    // share of campaigns that end before the deadline
  bool refused = false;  // it could not be predicted, so that it may or may not end in time
  std::string reason;    // why it was refused, or cannot run on them; empty: it can
};

struct FinishBy {
  double days = 0;                    // from the start to the deadline
  std::vector<CampaignOnGpus> tried;  // by GPUs, the plan's own among them; of refused ones those that may be fewer
  // The fewest that end in time in nine of ten cases and surely fit in memory, or as surely as the plan itself.
  std::optional<std::int64_t> gpus;
};

struct CampaignAnswer {
  CampaignInput input;
  CampaignResult result;
  // The step in the middle of its interval, which the campaigns have, over what its components add up to.
  double longer = 1;
  // Of a step over that middle; days contain it, days_of_seed do not. All ones: it was not asked for.
  model::Quantiles step_factor = {1, 1, 1};
  model::Quantiles days;
  std::optional<model::RunCost> run;  // in the middle, as `days` and usd(); nothing where it never finishes
  std::vector<CampaignPoint> intervals, spares;
  std::optional<FinishBy> finish;

  bool complete = true;  // false: it was stopped; `input.seeds` are those that were run, and what came later is missing

  bool never_ends() const { return !run && !result.never.empty(); }  // none of its campaigns; result.never has why
  bool is_known() const { return run.has_value() || never_ends(); }  // whether and when the training ends

  // Returns the GPUs of the spare nodes over those of the training, whose GPU-hours and USD are without them.
  double share_of_spares() const {
    return static_cast<double>(input.spare_nodes * input.gpus_per_node) / static_cast<double>(input.gpus);
  }

  // Of its GPUs at the value of the price; nothing without a price, or where it never finishes.
  std::optional<double> usd_per_day;
  // The step's factor with that of the price over its value, by quantiles of what the steps alone cost.
  model::Quantiles usd_factor = {1, 1, 1};

  // Returns the share of trainings that take at most so many days, over all seeds and the step's factor.
  double share_within(double most_days) const;
  // Returns the same of so many USD; 0 without a price.
  double share_within_usd(double most) const;
  std::optional<model::Quantiles> usd() const;  // nothing without a price
};

struct CampaignOptions {
  std::int64_t seeds = 200;
  std::uint64_t seed = 1;
  bool intervals = true;              // compares intervals between checkpoints
  std::vector<std::int64_t> spares;   // numbers of spare nodes to compare
  std::optional<double> finish_days;  // searches the fewest GPUs that need no more
  Tasks* tasks = &local_tasks();      // that run the seeds
  Watch watch = {};                   // of the campaigns of all tables together
};

// Predicts a step of the plan of these inputs.
using PredictStep = std::function<model::Result<model::StepResult>(const Inputs& inputs)>;
// Makes the inputs of the plan on another number of GPUs.
using InputsOnGpus = std::function<model::Result<Inputs>(std::int64_t gpus)>;

// Returns the campaign of inputs whose step is `step`. Phases of other batches are predicted by `predict`; a plan
// without [[campaign.phase]] has one of all its tokens. Requires inputs.campaign. Errors: a plan without tokens, phases
// that have more than those (input), and those of predictions and campaigns. One that is stopped lacks the points that
// were not finished, and its search for GPUs.
model::Result<CampaignAnswer> campaign_answer(const Inputs& inputs, const model::StepResult& step,
                                              const CampaignOptions& options, const PredictStep& predict,
                                              const InputsOnGpus& on_gpus);

}  // namespace plumbline::sim
