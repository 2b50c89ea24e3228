// The interface between the trainer and one training step of one rank: data in, loss and measured times out, and the
// state that a checkpoint must hold.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/result/timeline.h"
#include "real/executor/device.h"

namespace plumbline::real {

// Which sequences of the global batch form one micro-batch of this rank. Sequence numbers do not depend on the plan's
// parallel degrees, so that every division of a step processes the same batch.
struct MicroBatchPlace {
  std::int32_t direction = 0, micro_batch = 0;
  std::int64_t first_sequence = 0;  // index in the global batch; the micro_batch_size sequences are consecutive
};

struct MicroBatch {
  MicroBatchPlace place;
  std::vector<float> token_ids, labels;  // [tokens of the micro-batch]; a label is the next token's id
};

// The rows that this rank routed to each expert of a layer, over all micro-batches of the step.
struct ExpertLoad {
  std::int64_t layer = 0;    // layer of the model; -1: the multi-token prediction module
  std::vector<double> rows;  // [expert]
};

struct StepOutcome {
  double loss = 0;           // mean over this rank's micro-batches on ranks that hold the head, else 0
  double loss_weight = 0;    // micro-batches in that mean; the step's loss is sum(loss * weight) / sum(weight) of ranks
  double gradient_norm = 0;  // L2 norm of the whole mean gradient, before clipping; 0 where the plan does not clip
  bool finite = true;        // FP16: no gradient overflowed on any rank; otherwise nothing was updated
  double seconds = 0;        // duration on the device's clock
  std::vector<ExpertLoad> loads;
  model::Timeline timeline;  // of this rank
  // Busy seconds of this rank's kernels in slots, by class of operator (model/cost/operator_class.h, breakdown_name).
  std::vector<std::pair<std::string, double>> class_seconds;
  double issue_seconds = 0;  // CPU time per operator of the thread that issues the rank's slots
};

// A part of the training state that this rank holds: parameters in the compute format, master weights, moments or
// routing biases.
struct StatePiece {
  std::string name;  // unique on the rank, the same in every run of a plan
  Buffer* buffer = nullptr;
};

class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  virtual std::vector<MicroBatchPlace> places() const = 0;
  // Runs one step on batches in the order of places().
  virtual model::Result<StepOutcome> run(const std::vector<MicroBatch>& batches, const StepNumbers& numbers) = 0;

  // Call it between steps only; all sharded parameters are gathered when it returns.
  virtual std::vector<StatePiece> state() = 0;
  virtual Device& device() = 0;
  virtual std::vector<float> router_bias(std::int64_t layer) = 0;
  virtual void set_router_bias(std::int64_t layer, const std::vector<float>& bias) = 0;
};

}  // namespace plumbline::real
