// The training loop of one rank: its steps and everything between them. Every rank calls train() with the same options.
// Between steps the ranks agree, so that all go on or all stop.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/base/error.h"
#include "model/result/timeline.h"
#include "real/executor/communicator.h"
#include "real/executor/training/checkpoint.h"
#include "real/executor/training/loss_scale.h"
#include "real/executor/training/prefetch.h"
#include "real/executor/training/text.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

// --- Balancing of experts ---

// It needs no auxiliary loss (DeepSeek-V3, arXiv 2412.19437, section 2.1.2; arXiv 2408.15664). After each step the
// routing bias of an expert moves by a fixed amount: down where its load was above the mean of all experts, up where it
// was below.

// How evenly the experts of one layer were chosen in a step, over all ranks.
struct LayerLoad {
  std::int64_t layer = 0;    // layer of the model; -1: the multi-token prediction module
  std::vector<double> rows;  // [expert]; a token counts once for each expert that it chose
  double max_violation = 0;  // MaxVio of arXiv 2408.15664: max(load) / mean(load) - 1
  double variation = 0;      // standard deviation of the loads divided by their mean
};

// Sums the loads of all ranks. `layers` counts the model's layers without the prediction module, `experts` the routed
// experts of a layer. Every rank calls it and gets the same: layers with any load, ascending, the prediction module
// last. Tokens that several ranks of a tensor-parallel group route count several times, which keeps the ratios.
// Infeasible error when a load names another layer or expert, or when another rank has failed.
model::Result<std::vector<LayerLoad>> sum_loads(const std::vector<ExpertLoad>& own, std::int64_t layers,
                                                std::int64_t experts, Communicator& communicator);

// Returns the biases after a step with these loads; equal on all ranks, because the summed loads are.
std::vector<float> moved_bias(std::vector<float> bias, const LayerLoad& load, double speed);

// Moves the biases of the layers whose tokens this rank routed.
void update_biases(TrainingStep& step, const std::vector<ExpertLoad>& own, const std::vector<LayerLoad>& all,
                   double speed);

struct TrainingOptions {
  std::int64_t steps = 1;     // total steps at the end, including those before a checkpoint
  double learning_rate = -1;  // negative: the graph's
  BatchShape batch;           // gradients are the mean over its micro-batches
  bool prefetch_thread = true;
  bool fp16 = false;  // gradients may overflow, so the loss is scaled
  LossScaleOptions loss_scale;

  std::int64_t layers = 0;   // layers of the model, without the multi-token prediction module
  std::int64_t experts = 0;  // routed experts of a layer; 0: no loads are summed
  double balance_speed = 0;  // amount by which routing biases move after a step (DeepSeek-V3: 0.001); 0: they stay

  CheckpointStore checkpoint;            // empty folder: no checkpoints
  std::int64_t checkpoint_interval = 0;  // steps; 0: only after the last step
  bool resume = false;                   // from the newest checkpoint; if false, the folder must hold none
  // Asked on every rank in each step; where it holds on one, all ranks stop after the step, with a checkpoint. Empty:
  // all steps are done.
  std::function<bool()> stopped = {};
};

// The figures of one step over all ranks; the same on every rank.
struct StepFigures {
  std::int64_t step = 0;     // from 1
  double loss = 0;           // mean over all tokens
  double gradient_norm = 0;  // as in StepOutcome
  double seconds = 0;        // duration on the slowest rank
  double tokens_per_second = 0;
  double loss_scale = 1;  // in this step
  bool skipped = false;   // gradients overflowed, nothing was updated
  std::vector<LayerLoad> loads;
};
using StepObserver = std::function<void(const StepFigures&)>;

struct TrainingResult {
  std::int64_t first_step = 1;                          // number of the first step in the vectors
  std::vector<double> losses, gradient_norms, seconds;  // [step]
  std::int64_t skipped = 0;
  TrainingProgress progress;     // after the last step
  std::vector<LayerLoad> loads;  // of the last step
  model::Timeline timeline;      // of the last step, this rank's, where it was recorded
};

// The observer is called on every rank after each step; it may be empty. Infeasible error when the loss or the gradient
// norm is not finite (checkpoints then stay) or a step cannot run; input error when a checkpoint cannot be read or
// written. An error that occurs on this rank alone ends the job on all ranks.
model::Result<TrainingResult> train(TrainingStep& step, Communicator& communicator, const TextSource& text,
                                    const TrainingOptions& options, const StepObserver& observer = {});

}  // namespace plumbline::real
