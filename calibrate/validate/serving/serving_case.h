// A validation case over tables of published deployments: on which cluster a row is predicted, which shipped model it
// serves, and how large errors may be. docs/validation.md describes the file. A table is a CSV file with the columns of
// calibrate/published/serving/deployments.csv; cells that the source does not state are empty.
#pragma once

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
#include "model/profile/constant_rules.h"
#include "sim/interval/step_draws.h"
#include "sim/predict/inputs.h"

namespace plumbline::calibrate {

struct ServingHardware {  // what a cell of the column `hardware` stands for
  std::string name, topology;
  std::string device, profile;  // empty: the topology's own
};

// A limit on the errors of rows, with what is wanted of them. An aim alone fails nothing.
struct ServingDemand {
  std::string name, figure;             // "step", "TPOT", "TTFT" or "tokens/s"
  std::vector<std::string> rows, sets;  // ids, or sets; the median of |error| counts
  std::vector<std::string> models;      // of the sets; empty: all
  std::optional<double> limit, aim;
};

struct ServingCase {  // the content of a case file
  std::string name;
  std::vector<std::string> tables;  // names of the measurements
  std::vector<ServingHardware> hardware;
  std::vector<std::pair<std::string, std::string>> models;  // the column `model`, a shipped model
  std::vector<ServingDemand> demands;
};

// Whether a case file is of this form; false for unreadable files.
bool is_serving_case(const std::string& path);

// Reads a case. Input errors name file, line and key.
model::Result<ServingCase> load_serving_case(const std::string& path);

enum class ServingPhase : std::uint8_t { prefill, decode, mixed };

struct PublishedServing {  // a row of a table
  std::string id, set, model, hardware, engine, weights, kv_cache;
  ServingPhase phase = ServingPhase::mixed;
  bool average = false;         // over a time of changing load, or of another load than stated: a ratio
  bool as_many_as_fit = false;  // requests
  // Stated values by column: gpus, tensor, attention_data, expert, concurrency, input_tokens, output_tokens.
  std::map<std::string, std::int64_t, std::less<>> numbers;
  std::optional<double> step_s, tpot_s, tokens_per_s_per_gpu;
  std::optional<double> ttft_s;      // at the load
  std::vector<std::string> plan;     // further keys of the plan, and constants: "profile.serving.graphs.most=384"
  std::vector<std::string> missing;  // features of the row that a plan cannot express

  std::vector<std::string> lacking() const;  // columns that a plan needs and the row lacks
};

// Reads a table. Input errors name file, line and column.
model::Result<std::vector<PublishedServing>> read_published_serving(const std::string& path);

struct ServingPlan {
  model::Plan plan;
  std::string profile;
  std::vector<model::ConstantChange> constants;  // that the row states
};

// Returns the plan of a row, which must lack nothing. Input errors name the row: hardware or a model that the case does
// not list, a plan key that does not exist, a constant without a number.
model::Result<ServingPlan> serving_plan(const PublishedServing& row, const ServingCase& definition);

// Published figures of deployments that shipped examples describe (calibrate/published/serving/examples.csv), which are
// printed next to their predictions. No constant rests on them.
struct ExampleFigure {
  std::string plan;      // name of a shipped example
  std::string quantity;  // a key of `serve --json`: "tpot_s"
  std::string name;      // as tables print it
  double value = 0;
  std::string unit;
  double scale = 1;    // quantity * scale is in `unit`
  std::string reason;  // why the published value differs from a steady state; may be empty
  std::string source;
};

// Input errors name file, line and column.
model::Result<std::vector<ExampleFigure>> load_example_figures(const std::string& path);

// Published deployments compared with their predictions and with a roofline.

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
