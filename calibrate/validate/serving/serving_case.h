// A validation case over tables of published deployments: on which cluster a row is predicted, which shipped model it
// serves, and how large errors may be. docs/validation.md describes the file. A table is a CSV file with the columns of
// calibrate/published/serving/deployments.csv; cells that the source does not state are empty.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"

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
  std::vector<std::string> plan;     // further keys of the plan
  std::vector<std::string> missing;  // features of the row that a plan cannot express

  std::vector<std::string> lacking() const;  // columns that a plan needs and the row lacks
};

// Reads a table. Input errors name file, line and column.
model::Result<std::vector<PublishedServing>> read_published_serving(const std::string& path);

struct ServingPlan {
  model::Plan plan;
  std::string profile;
};

// Returns the plan of a row, which must lack nothing. Input errors name the row: hardware or a model that the case does
// not list, a plan key that does not exist.
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

}  // namespace plumbline::calibrate
