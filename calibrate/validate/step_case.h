// A validation case over a whole table of published training steps: on which shipped cluster a row is predicted, what
// plan keys the software of a set implies, and how large the errors may be. docs/validation.md describes the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/residuals/left_estimate.h"
#include "calibrate/residuals/regression.h"
#include "calibrate/validate/interval_score.h"
#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/predict/simulate.h"
#include "sim/predict/simulation.h"
#include "sim/tasks/watch.h"

namespace plumbline::calibrate {

// A table of published training steps, one row per run: CSV with the columns of calibrate/published/training_steps.csv.
// Cells that the source does not state are empty.
struct PublishedStep {  // a row of the table
  std::string id, set, variant, model, model_type, hardware, recompute, schedule, gemm, time, status, source;
  bool sequence_parallel = false;
  // Stated values by column: layers, hidden, heads, kv_heads, ffn, vocabulary, gpus, the degrees of parallelism,
  // virtual_stages, data, micro_batch, global_batch, sequence; of mixtures of experts also experts, experts_per_token,
  // expert_ffn. zero_stage counts from 0.
  std::map<std::string, std::int64_t, std::less<>> numbers;
  std::optional<double> seconds;       // of one optimizer step
  std::optional<double> memory_bytes;  // of the GPU with the most
  std::vector<std::string> assumed;    // columns whose values are assumptions of ours, not of the source
  std::vector<std::string> plan;       // further keys of the plan, "schedule.layers_per_stage=[1, 2]"

  bool out_of_memory() const { return status == "out-of-memory"; }  // by the source
  // Returns whether the plan ran or ended for lack of memory; nothing where the source states neither, or where what is
  // computed again, which decides what the plan holds, is assumed.
  std::optional<bool> ran() const;
  // Returns the columns that a plan and a comparison need and the row lacks. A run that did not fit needs no time.
  std::vector<std::string> lacking() const;
  std::string layout() const;  // "TP8 PP35x3 DP8 ZeRO-1"
};

// Reads a table. Input errors name file, line and column: a missing column, a cell that is no number, degrees whose
// product is not the number of GPUs, an id that two rows have.
model::Result<std::vector<PublishedStep>> read_published_steps(const std::string& path);

// The cluster and profile that a cell of the column `hardware` stands for.
struct StepHardware {
  std::string name, topology;
  std::string profile;            // empty: the topology's own
  std::string device;             // empty: the topology's own
  std::vector<std::string> plan;  // "cluster.nics_per_node=4", as on the command line
};

// What is known of the software of a set but not in the table. Several may match; later ones win.
struct StepReading {
  std::string set;                   // its rows only
  std::string variant, hardware;     // only rows whose variant contains this, or on this hardware; empty: all
  std::string cluster, profile;      // override the hardware's topology and profile; empty: no override
  std::string stack;                 // the software; empty: the profile's
  std::vector<std::string> plan;     // "overlap.gradient_reduce=false", as on the command line
  std::vector<std::string> missing;  // features of these rows that a plan cannot express
  // Whether those features decide which tensors the rows hold, so that their memory shows nothing of other plans.
  bool missing_tensors = false;
  // What their memory is of: "device" (as nvidia-smi shows it), "reserved" (the allocator's segments) or "allocated"
  // (tensors); empty: no override of "device".
  std::string memory;
  std::string source;
};

// Limits on the relative errors of some rows.
struct StepDemand {
  std::string name;
  std::vector<std::string> hardware;  // of the rows; empty: all
  double mean_absolute_error = 0;
  double bias = 0;  // limit on the absolute value of the mean error
  std::optional<double> aim_mean_absolute_error, aim_bias;
  std::vector<std::string> sets;  // of the rows; empty: all
};

// Limits on intervals that nobody's own rows are in, and what they should reach; docs/intervals.md.
struct IntervalDemand {
  std::pair<double, double> coverage;  // of the 80 % interval, over all rows
  std::optional<std::pair<double, double>> aim_coverage;
  std::optional<double> aim_set_coverage;                   // of each set of `rows_of_a_set` rows or more, at least
  std::optional<double> aim_half_width;                     // median
  std::optional<double> aim_mean_absolute_error, aim_bias;  // of P50
  static constexpr std::size_t rows_of_a_set = 20;
  bool holds(double measured_coverage) const {
    return coverage.first <= measured_coverage && measured_coverage <= coverage.second;
  }
};

struct StepCase {  // the content of a case file
  std::string name;
  std::vector<std::string> tables;  // names of the measurements
  sim::Fidelity fidelity = sim::Fidelity::step;
  bool residuals = false;  // whether to explain the errors by the shares of the steps
  bool intervals = true;   // whether the steps are held against their intervals, which rest on them
  double naive_mfu = 0;
  std::string naive_source;
  std::vector<StepHardware> hardware;
  std::vector<StepReading> readings;
  std::vector<StepDemand> demands;
  std::optional<IntervalDemand> interval;
};

// Whether a case file is of this form, with a table of steps instead of figures; false for unreadable files.
bool is_step_case(const std::string& path);

// Reads a case. Input errors name file, line and key.
model::Result<StepCase> load_step_case(const std::string& path);

// The plan that predicts a published training step.
struct StepPlan {
  model::Plan plan;
  std::string profile, memory;       // memory: as StepReading's, "device" where no reading has one
  std::vector<std::string> missing;  // features of the row that a plan cannot express
  bool missing_tensors = false;      // as StepReading's
};

// Returns the plan of a row, which must lack nothing. Further keys of the row win over those of readings, and these
// over its columns. Input errors name the row: hardware that the case does not list, a model type without a shipped
// model to start from, a dimension of that model that the row lacks, a plan key that does not exist.
model::Result<StepPlan> step_plan(const PublishedStep& step, const StepCase& definition);

// Published training steps compared with their predictions and a constant-MFU baseline, and statistics of the errors.

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
