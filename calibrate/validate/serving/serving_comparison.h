// Published deployments compared with their predictions and with a roofline.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/residuals/left_estimate.h"
#include "calibrate/residuals/regression.h"
#include "calibrate/validate/interval_score.h"
#include "calibrate/validate/serving/serving_case.h"
#include "model/base/error.h"
#include "sim/interval/step_draws.h"
#include "sim/predict/inputs.h"

namespace plumbline::calibrate {

// A published number with its prediction. The roofline reads all weights and the cache at the datasheet's memory
// bandwidth once a step, and computes a prompt at the datasheet's peak on the GPUs of an instance.
struct ComparedFigure {
  std::string name;  // "step", "TPOT", "TTFT" (s), "tokens/s" (of a GPU)
  double published = 0, predicted = 0, roofline = 0;
  std::optional<PredictedRange> range;  // by everything but the row's engine
  sim::DrawnSpread drawn;               // of the range, without what is left

  double error() const { return predicted / published - 1; }
};

struct ComparedServing {  // a row with its prediction
  PublishedServing row;
  std::vector<std::string> lacking;   // columns without which there is no plan
  std::optional<model::Error> error;  // why there is no prediction, where there is a plan
  StepKind kind;
  std::vector<ComparedFigure> figures;
};

struct ServingSummary {  // of one figure over some rows
  std::string name, figure;
  ErrorStatistics prediction, roofline;
  IntervalScore interval;  // of the rows that have one
};

// How the time per output token changes with tensor parallelism at the same load.
struct TensorRatios {
  std::string set;
  std::size_t rows = 0;
  double median_error = 0;  // of |predicted ratio / published ratio - 1|, a row against that with fewest ranks
};

// TPOT = a + P / OSL over the output lengths of deployments that are alike otherwise, by least squares: decode has `a`,
// and P is what the prompts of others add to the decoding of a request. A TPOT may be right where both are wrong.
struct TokenTimeSplit {
  std::string set;
  ErrorStatistics decode;   // of predicted a / published a - 1, a row for each deployment of two output lengths or more
  ErrorStatistics prompts;  // of the difference of P / OSL over the published TPOT, at the shortest output
};

// The rows of an engine that state everything that decides them: no feature that a plan cannot express.
struct ComparableRows {
  std::string engine;
  std::size_t rows = 0;           // with predictions
  std::vector<std::string> sets;  // in the order of the tables
};

struct ComparedServingDemand {
  ServingDemand demand;
  ServingSummary summary;
  bool holds() const;
  bool reaches_aim() const;
};

struct ServingComparison {
  ServingCase definition;
  std::vector<ComparedServing> rows;
  std::vector<ServingSummary> summaries;  // of each set and figure, without averages
  std::vector<ComparedServingDemand> demands;
  std::vector<PlanOrder> orders;  // of tensor degrees and concurrencies with the same lengths, by TPOT
  std::vector<TensorRatios> ratios;
  std::vector<TokenTimeSplit> splits;
  std::vector<ComparableRows> engines;  // by name; all that rows have

  bool holds() const;
};

// Loads the inputs of a prediction: model, cluster and profile (the second argument; empty: the cluster's own). No
// constant of the engine rests on the set `held_out`, and what is left is by the rows of other engines.
using ServingInputsOf = std::function<model::Result<sim::Inputs>(const model::Plan&, const std::string& profile,
                                                                 const std::string& held_out)>;

// Compares all rows, on all cores. One whose plan is infeasible or wrong has its error; the others go on. `inputs_of`
// is called on one thread at a time. Ranges take most of the time. A comparison that was stopped lacks rows and is of
// no use.
ServingComparison compare_serving(const ServingCase& definition, const std::vector<PublishedServing>& rows,
                                  const ServingInputsOf& inputs_of, bool ranges = false, const sim::Watch& watch = {});

}  // namespace plumbline::calibrate
