// Everything that the parts of a rank's executor share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/program.h"
#include "real/executor/activations.h"
#include "real/executor/buffer_pool.h"
#include "real/executor/communicator.h"
#include "real/executor/device.h"
#include "real/executor/label_book.h"
#include "real/executor/rank_place.h"
#include "real/executor/stage_state.h"

namespace plumbline::real {

// The undertaking that ranks carry out together. plan, layout and program belong together; all must outlive the
// executor.
struct StepInput {
  const model::Plan* plan = nullptr;
  const model::Architecture* architecture = nullptr;
  const model::Layout* layout = nullptr;
  const model::StepProgram* program = nullptr;
  Device* device = nullptr;
  Communicator* communicator = nullptr;
};

struct LocalStage {
  std::unique_ptr<StageState> state;
  std::unique_ptr<Activations> activations;
  std::vector<std::int32_t> holders;  // pipeline ranks
};

struct RankState {
  StepInput input;
  RankPlace place;
  std::unique_ptr<BufferPool> pool;           // of all stages' activations
  std::map<std::int32_t, LocalStage> stages;  // by stage
  LabelBook labels;
  StepNumbers numbers;

  const model::StepProgram& program() const { return *input.program; }
  Device& device() const { return *input.device; }
  Communicator& communicator() const { return *input.communicator; }
  const std::vector<model::ScheduleOp>& ops() const {
    return program().schedule.ranks[static_cast<std::size_t>(place.pipeline)];
  }

  // Names a micro-batch among those of its stage.
  std::int64_t key(std::int32_t direction, std::int32_t micro_batch) const {
    return std::int64_t{direction} * program().schedule.shape.micro_batches + micro_batch;
  }

  // A collective of the graph among the ranks of `stage`, launched for what it is.
  void launch_collective(model::Stream stream, const Kernel& kernel, std::int32_t stage);
  // The ranks that share a model's experts and exchange tokens.
  Group expert_group() const;
  Group world() const;
};

}  // namespace plumbline::real
