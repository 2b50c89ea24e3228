// One training step of one rank as its trainer sees it: data in, loss and measured times out, and the state that a
// checkpoint must hold.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/result/timeline.h"
#include "real/executor/device.h"

namespace plumbline::real {

// Which sequences of the global batch make one micro-batch of this rank. The numbers do not depend on the plan's
// degrees, so that every division of a step sees the same batch.
struct MicroBatchPlace {
  std::int32_t direction = 0, micro_batch = 0;
  std::int64_t first_sequence = 0;  // of the global batch; micro_batch_size in a row
};

struct MicroBatch {
  MicroBatchPlace place;
  std::vector<float> token_ids, labels;  // [tokens of the micro-batch]; a label is the next token's id
};

// Rows that chose each expert, of all micro-batches of the step that this rank routed.
struct ExpertLoad {
  std::int64_t layer = 0;    // of the model; -1: the prediction module
  std::vector<double> rows;  // [expert]
};

struct StepOutcome {
  double loss = 0;           // mean over this rank's micro-batches on ranks that hold the head, else 0
  double loss_weight = 0;    // micro-batches it is the mean of: sums over ranks of loss * weight / weight is the step's
  double gradient_norm = 0;  // of the whole mean gradient, before clipping; 0 where the plan does not clip
  bool finite = true;        // FP16: no gradient overflowed anywhere; otherwise nothing was updated
  double seconds = 0;        // on the device's clock
  std::vector<ExpertLoad> loads;
  model::Timeline timeline;  // of this rank
  // Busy seconds of this rank's kernels in slots, by class of operator (model/cost/operator_class.h, breakdown_name).
  std::vector<std::pair<std::string, double>> class_seconds;
};

// A part of the training state that this rank holds: parameters as they are computed with, master weights, moments,
// routing biases.
struct StatePiece {
  std::string name;  // unique on the rank, the same in every run of a plan
  Buffer* buffer = nullptr;
};

class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  virtual std::vector<MicroBatchPlace> places() const = 0;
  // Batches in the order of places().
  virtual model::Result<StepOutcome> run(const std::vector<MicroBatch>& batches, const StepNumbers& numbers) = 0;

  // Between steps only; all parameters are gathered when the call returns.
  virtual std::vector<StatePiece> state() = 0;
  virtual Device& device() = 0;
  virtual std::vector<float> router_bias(std::int64_t layer) = 0;
  virtual void set_router_bias(std::int64_t layer, const std::vector<float>& bias) = 0;
};

}  // namespace plumbline::real
