#include "model/schedule/chunk_costs.h"

#include <cassert>
#include <utility>

namespace plumbline::model {

StageCosts::StageCosts(std::vector<StageCost> stages, double p2p, double pair,
                       std::vector<std::vector<double>> micro_batches)
    : ChunkCosts(p2p), stages_(std::move(stages)), pair_(pair), micro_batches_(std::move(micro_batches)) {}

double StageCosts::of(const ScheduleOp& op) const {
  double forward = 0, backward = 0;
  if (op.f_stage >= 0) {
    assert(static_cast<std::size_t>(op.f_stage) < stages_.size());
    forward = stages_[static_cast<std::size_t>(op.f_stage)].F * factor(op.f_dir, op.f_mb);
  }
  if (op.b_stage >= 0) {
    assert(static_cast<std::size_t>(op.b_stage) < stages_.size());
    const StageCost& stage = stages_[static_cast<std::size_t>(op.b_stage)];
    const double cost = op.type == OpType::I ? stage.I : op.type == OpType::W ? stage.W : stage.B;
    backward = cost * factor(op.b_dir, op.b_mb);
  }
  return op.type == OpType::FB ? pair_ * (forward + backward) : forward + backward;
}

double StageCosts::factor(std::int32_t direction, std::int32_t micro_batch) const {
  const auto side = static_cast<std::size_t>(direction), index = static_cast<std::size_t>(micro_batch);
  if (side >= micro_batches_.size() || index >= micro_batches_[side].size()) return 1;
  return micro_batches_[side][index];
}

}  // namespace plumbline::model
