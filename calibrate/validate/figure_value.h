// The values of a validation case's figures: predicted, and by a naive baseline.
#pragma once

#include <optional>

#include "calibrate/validate/all_to_all_question.h"
#include "calibrate/validate/kernel_question.h"
#include "calibrate/validate/validation_case.h"
#include "model/architecture/architecture.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/result/result.h"
#include "model/result/timeline_summary.h"
#include "sim/interval/interval.h"

namespace plumbline::calibrate {

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

}  // namespace plumbline::calibrate
