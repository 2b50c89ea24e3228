// Runs the end of a step on a rank, after its slots: the gradients' norm, agreement on overflow, AdamW.
#pragma once

#include <vector>

#include "real/executor/step/detail/data_parallel_runner.h"
#include "real/executor/step/rank_state.h"

namespace plumbline::real {

class OptimizerStep {
 public:
  explicit OptimizerStep(RankState& rank);

  struct Outcome {
    bool finite = true;        // else nothing was updated
    double gradient_norm = 0;  // of the mean gradient; 0 where the plan does not clip
  };
  // Requires that the compute stream waits for the reduction of all gradients. Waits for the device.
  model::Result<Outcome> run(DataParallelRunner& data_parallel);

 private:
  void launch(std::int32_t stage, const model::Operator& op, Buffer* squares);
  void launch_sum_of_squares(std::int32_t stage, const model::Operator& op, Buffer* result);
  void weigh(std::int32_t stage, std::size_t unit, model::TensorId gradient, Kernel& kernel);
  void agree(std::vector<BufferPointer>& parts, Buffer* sum, const char* name);
  std::vector<std::pair<std::int32_t, const model::Operator*>> operators(model::OperatorKind kind) const;
  Buffer* bind(std::int32_t stage, model::TensorId id) const;

  RankState& rank_;
  std::vector<BufferPointer> found_, squares_;  // of each stage
  BufferPointer found_anywhere_, all_squares_, scale_;
  std::vector<BufferPointer> views_;  // parts of shards that differ in the number of ranks that hold them
  std::map<std::pair<std::int32_t, const Buffer*>, std::vector<std::pair<Buffer*, double>>> weighed_;
};

}  // namespace plumbline::real
