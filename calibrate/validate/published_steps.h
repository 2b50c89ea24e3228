// A table of published training steps, one row per run: CSV with the columns of calibrate/published/training_steps.csv.
// Cells that the source does not state are empty.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::calibrate {

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

}  // namespace plumbline::calibrate
