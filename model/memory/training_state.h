// Counts the parameters, gradients and optimizer states that a pipeline rank holds through the whole step.
#pragma once

#include <cstdint>
#include <vector>

#include "model/base/units.h"
#include "model/plan/layout.h"
#include "model/program/program.h"

namespace plumbline::model {

struct Plan;

struct StateBytes {
  Bytes parameters;  // zero_stage 3: the rank's shard and the gathered units
  Bytes gradients;   // zero_stage 2, 3: the rank's shard and what waits for its reduction, two units or (reduce_after
                     // "run") a stage; with the FP32 sums of optimizer.gradient_copy, which are divided like them
  Bytes optimizer;   // the rank's shard of master weights and two moments; none where the host holds them
};
struct ParameterCounts {  // of those that a rank trains, in elements where no unit is given
  double held = 0;        // zero_stage 3: its shards
  double updated = 0;     // those that its optimizer updates
  double largest = 0;     // the largest tensor; of experts one
  Bytes shards;           // zero_stage 3: of the parameters in their own format, where there are master weights
  Bytes on_host;          // host memory: offloaded states with the gradients of the update, and the moving average
  double shapes = 0;      // one matrix of each shape, without tables of embeddings
};
struct TrainingState {
  StateBytes experts, others;
  ParameterCounts counts;
  // Part of the bytes above, zero_stage 3: overlap.prefetch + 1 consecutive units, all without resharding.
  Bytes gathered_parameters;
};

// Returns the state of a rank that holds `stages`. A parameter that blocks share counts once, also where its owner is
// on another rank and this one holds a copy.
TrainingState training_state(const Plan& plan, const Layout& layout, const StepProgram& program,
                             const std::vector<std::int64_t>& stages);

struct StageParameters {  // parameters of one stage
  const StageKind* kind = nullptr;
  const std::vector<ShardUnit>* units = nullptr;  // may be null
};
// Returns the same without a whole program.
TrainingState training_state(const Plan& plan, const Layout& layout, const std::vector<Graph>& blocks,
                             const std::vector<StageParameters>& stages);

// Returns the bytes of a parameter of the GEMMs' format with its optimizer states, wherever they are held.
double state_bytes_per_parameter(const Plan& plan);

}  // namespace plumbline::model
