// Validation cases evaluated: each figure as every profile predicts it, next to the published value and a naive
// baseline.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/validate/validation_case.h"
#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/result/comparison.h"
#include "model/result/result.h"
#include "sim/interval/interval.h"
#include "sim/predict/predictor.h"
#include "sim/predict/simulate.h"

namespace plumbline::calibrate {

// The values of a validation case's figures: predicted, and by a naive baseline.

// The results of one profile. A result that no figure uses may be nullptr.
struct Prediction {
  const model::StepResult* step = nullptr;
  const model::TimelineSummary* chunk = nullptr;
  const SingleKernels* kernels = nullptr;
  const SingleAllToAlls* all_to_alls = nullptr;
  // What the step was predicted from, and the draws behind its interval; nullptr: figures have no intervals.
  const sim::Inputs* inputs = nullptr;
  const sim::StepDraws* draws = nullptr;
};

// The results that the figures of a case use.
struct Needs {
  bool step = false, chunk = false, kernels = false, all_to_alls = false;
};
Needs needs_of(const ValidationCase& definition);

// Returns the predicted value of a figure in its unit; nullopt when the prediction does not have the metric.
std::optional<double> predicted(const Figure& figure, const Prediction& prediction);

// Returns the interval of a figure in its unit: of what a step time determines by the step's, of other times of the
// step by their own draws, with what is left in proportion to the time. Other figures have none.
std::optional<model::Quantiles> interval_of(const Figure& figure, const Prediction& prediction);

// What a constant share of the dense BF16 peak predicts for a plan.
struct Naive {
  model::StepResult step;            // step time, tokens per second, run
  double flop_rate = 0;              // FLOP/s of one GPU
  std::optional<double> pair_flops;  // of an overlapped pair of chunks of a middle stage
};
Naive naive_prediction(const model::Plan& plan, const model::Architecture& architecture,
                       const model::ClusterShape& cluster, double mfu);

// Returns the baseline's value of a figure; nullopt where a constant rate does not determine it.
std::optional<double> baseline(const Figure& figure, const Naive& naive);

struct EvaluatedFigure {
  Figure figure;
  std::vector<std::optional<double>> predicted;            // by profile of the case
  std::vector<std::optional<model::Quantiles>> intervals;  // by profile; nothing where a profile has none
  std::optional<double> naive;                             // where a constant MFU determines the figure
  std::optional<bool> within;  // by the plan's own profile; nullopt where there is no tolerance
};

struct EvaluatedAggregate {
  Aggregate aggregate;
  std::vector<std::optional<double>> values;  // by profile of the case
  bool within = false;                        // by the plan's own profile
};

struct EvaluatedCase {
  ValidationCase definition;
  double naive_step_s = 0;
  std::vector<EvaluatedFigure> figures;
  std::vector<EvaluatedAggregate> aggregates;

  bool holds() const;  // every tolerance is met
};

// Evaluates a case; `predictions` are by profile of the case. A figure with a tolerance but no prediction is not within
// it.
EvaluatedCase evaluate(const ValidationCase& definition, const std::vector<Prediction>& predictions,
                       const Naive& naive);

// Returns the relative error; nullopt without a value.
std::optional<double> error_of(const Figure& figure, std::optional<double> value);

// Evaluates cases by their plans and profiles. Each plan is simulated once per profile, because several cases may use
// the same step.
class CaseRuns {
 public:
  // Loads what a simulation of a named plan with a named profile needs.
  using Loader = std::function<model::Result<sim::Inputs>(const std::string& plan, const std::string& profile)>;

  explicit CaseRuns(Loader load) : load_(std::move(load)) {}
  // Evaluates one case; the first error of the loader or of the simulation is returned.
  model::Result<EvaluatedCase> evaluate(const ValidationCase& definition);

 private:
  struct Run {
    sim::Inputs inputs;
    std::optional<model::StepResult> step;
    sim::StepDraws draws;
    std::optional<SingleKernels> kernels;
    std::optional<SingleAllToAlls> all_to_alls;
  };
  model::Result<const Run*> run_of(const std::string& plan, const std::string& profile, const Needs& needs);

  Loader load_;
  sim::PredictorPool predictors_;
  std::map<std::pair<std::string, std::string>, Run> runs_;  // by plan and profile
};

// Quantities by name, the same for predictions and measurements, in SI units.
//
// Quantities of a step's result have the keys of the JSON output: "step.time_s", "step.slots_s.FB",
// "run.total_gpu_hours", and sums of them: "step.slots_s.B + step.slots_s.I".
//
// Quantities of a kernel trace of a chunk, in seconds and shares:
//   chunk.time_s, chunk.compute_busy_s, chunk.compute_busy_share, chunk.communication_busy_s,
//   chunk.exposed_communication_s
//   chunk.span_s.attn(F).1      a phase of slot 1
//   chunk.period_s.2            from the end of attn(B) of slot 1 to that of slot 2
//   chunk.class_s.cast          a class of kernels
//   chunk.gemm_s.q_b.dgrad      a GEMM, mean over the slots
//   chunk.gemm_sum_s.dgrad+recompute  all GEMMs of these kinds, sum of their means

// Returns the value of a metric; nullopt when the result lacks it (or a term of the sum) or the name is no metric.
std::optional<double> metric_value(std::string_view metric, const model::StepResult& result);
std::optional<double> metric_value(std::string_view metric, const model::TimelineSummary& chunk);

// Whether a metric is read from a kernel trace.
bool of_chunk(std::string_view metric);

// Checks the name. An unknown one is an input error with the nearest known one; the caller adds file and line.
model::Result<void> check_metric(std::string_view metric);
// Checks the name, and refuses metrics of a chunk.
model::Result<void> check_step_metric(std::string_view metric);

}  // namespace plumbline::calibrate
