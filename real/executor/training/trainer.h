// Trains: step after step of one rank, with everything between the steps. Every rank calls train() with the same
// options; between steps they agree, so that all go on or all stop.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/base/error.h"
#include "model/result/timeline.h"
#include "real/executor/communicator.h"
#include "real/executor/training/checkpoint.h"
#include "real/executor/training/expert_balance.h"
#include "real/executor/training/loss_scale.h"
#include "real/executor/training/prefetch.h"
#include "real/executor/training/text.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

struct TrainingOptions {
  std::int64_t steps = 1;     // to have done in the end, those before a checkpoint included
  double learning_rate = -1;  // negative: the graph's
  BatchShape batch;           // its micro-batches are what gradients are the mean of
  bool prefetch_thread = true;
  bool fp16 = false;  // gradients may overflow: the loss is scaled
  LossScaleOptions loss_scale;

  std::int64_t layers = 0;   // of the model, without the prediction module
  std::int64_t experts = 0;  // routed ones of a layer; 0: no loads are summed
  double balance_speed = 0;  // by which routing biases move after a step (DeepSeek-V3: 0.001); 0: they stay

  CheckpointStore checkpoint;            // folder empty: none
  std::int64_t checkpoint_interval = 0;  // steps; 0: only after the last
  bool resume = false;                   // from the newest checkpoint; without, the folder must hold none
};

// One step, over all ranks; the same on every rank.
struct StepFigures {
  std::int64_t step = 0;     // from 1
  double loss = 0;           // mean over all tokens
  double gradient_norm = 0;  // StepOutcome's
  double seconds = 0;        // of the slowest rank
  double tokens_per_second = 0;
  double loss_scale = 1;  // with which it ran
  bool skipped = false;   // gradients overflowed, nothing was updated
  std::vector<LayerLoad> loads;
};
using StepObserver = std::function<void(const StepFigures&)>;

struct TrainingResult {
  std::int64_t first_step = 1;                          // the others follow
  std::vector<double> losses, gradient_norms, seconds;  // [step]
  std::int64_t skipped = 0;
  TrainingProgress progress;     // after the last step
  std::vector<LayerLoad> loads;  // of the last step
  model::Timeline timeline;      // of the last step, this rank's, where it was recorded
};

// The observer is called on every rank after each step; it may be empty. Errors: infeasible when the loss or the norm
// of the gradient is no finite number (checkpoints stay as they are) or a step cannot be run, input when a checkpoint
// cannot be read or written. When only this rank knows of an error it ends the job on all ranks.
model::Result<TrainingResult> train(TrainingStep& step, Communicator& communicator, const TextSource& text,
                                    const TrainingOptions& options, const StepObserver& observer = {});

}  // namespace plumbline::real
