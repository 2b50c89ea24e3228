// Published training steps compared with their predictions and a constant-MFU baseline, and statistics of the errors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/residuals/left_estimate.h"
#include "calibrate/residuals/regression.h"
#include "calibrate/validate/interval_score.h"
#include "calibrate/validate/step_case.h"
#include "model/base/error.h"
#include "sim/predict/simulate.h"
#include "sim/tasks/watch.h"

namespace plumbline::calibrate {

struct ComparedStep {  // a row with its prediction and baseline
  PublishedStep step;
  std::vector<std::string> lacking;  // columns without which there is no plan
  std::vector<std::string> missing;  // features of the row that a plan cannot express
  bool missing_tensors = false;      // as StepReading's
  std::string profile;
  std::optional<model::Error> error;          // why there is no prediction, where there is a plan
  std::optional<double> predicted, baseline;  // s
  std::optional<double> peak_bytes;           // of the GPU with the most
  std::optional<double> comparable_bytes;     // the part of it that the row's memory is of
  double capacity_bytes = 0;
  std::vector<std::string> held_out;  // constants of the stack that rest on the row's set, and are left out
  StepKind kind;
  std::optional<StepShares> shares;  // of the prediction, where the case asks for residuals
  RowRanges ranges;                  // by everything but the row's set

  std::optional<double> prediction_error() const;  // relative: predicted over measured, less one
  std::optional<double> memory_error() const;      // relative: predicted peak over the stated one, less one
  // Whether the plan is rightly predicted to fit, or not to fit, where the row states which: it ran, or ran out of
  // memory. A row whose recomputation is an assumption of ours states neither, since that decides what it holds.
  std::optional<bool> right_about_fit() const;
  std::optional<double> baseline_error() const;  // only where there is a prediction, so that both cover the same rows
};

struct StepSummary {  // the errors of a set of rows
  std::string name;
  ErrorStatistics prediction, baseline, memory;
  std::size_t stated_fits = 0, right_fits = 0;  // rows that ran or ran out of memory, and those predicted rightly
};

struct ComparedDemand {  // a limit with the errors of its rows
  StepDemand demand;
  StepSummary summary;
  bool holds() const;  // both limits are met, and the error is below the baseline's
  bool reaches_aim() const;
};

struct StepComparison {
  StepCase definition;
  std::vector<ComparedStep> steps;
  std::vector<StepSummary> summaries;  // of each set with predictions, then of all
  std::vector<ComparedDemand> demands;
  std::vector<PlanOrder> orders;
  ClusterScatter scatter;
  std::vector<ResidualRegression> residuals;  // none where the case does not ask for them

  bool holds() const;
};

// Loads the inputs of a simulation: model, cluster and profile (the second argument), without the constants of the
// stack that rest on steps of the set `held_out`, and with what is left by the steps of other sets.
using InputsOf = std::function<model::Result<sim::Inputs>(const model::Plan&, const std::string& profile,
                                                          const std::string& held_out)>;

// Compares all rows, on all cores. A row whose plan is infeasible or wrong has its error; the others go on. `inputs_of`
// is called on one thread at a time. Ranges take most of the time. A comparison that was stopped lacks rows and is of
// no use.
StepComparison compare_steps(const StepCase& definition, const std::vector<PublishedStep>& steps,
                             const InputsOf& inputs_of, bool ranges = false, const sim::Watch& watch = {});

// The scores of the intervals of several comparisons' rows together.
struct IntervalScores {
  // Of each set with intervals, of the hardware of each demand on some, and of all; without intervals empty.
  std::vector<std::pair<std::string, RangeScores>> scores;
  std::optional<IntervalDemand> demand;  // the first one that a case states

  bool holds() const;  // true without a demand
};
// Scores the ranges, and those of a constant MFU with the location and spread that it has on the other sets.
IntervalScores interval_scores(const std::vector<StepComparison>& comparisons);

}  // namespace plumbline::calibrate
