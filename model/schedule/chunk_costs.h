// States what the ops of a schedule cost where stages or micro-batches differ.
#pragma once

#include <vector>

#include "model/schedule/schedule.h"

namespace plumbline::model {

// Costs in any one unit of time, the same for ops and transfers. Derived classes give the costs of ops.
class ChunkCosts {
 public:
  explicit ChunkCosts(double p2p) : p2p_(p2p) {}
  virtual ~ChunkCosts() = default;
  virtual double of(const ScheduleOp& op) const = 0;
  double p2p() const { return p2p_; }  // one transfer between two ranks

 private:
  double p2p_;
};

// All stages and micro-batches cost the same.
class UniformCosts final : public ChunkCosts {
 public:
  explicit UniformCosts(const ScheduleCosts& costs) : ChunkCosts(costs.p2p), costs_(costs) {}
  double of(const ScheduleOp& op) const override { return costs_.of(op.type); }

 private:
  ScheduleCosts costs_;
};

struct StageCost {
  double F = 1, B = 2, I = 1, W = 1;
};

// There is one entry per stage and a factor per micro-batch: micro_batches[direction][m], 1 where there is no entry.
// The forward and the backward of a pair may be of different stages; the pair takes `pair` times their sum.
class StageCosts final : public ChunkCosts {
 public:
  StageCosts(std::vector<StageCost> stages, double p2p, double pair = 1,
             std::vector<std::vector<double>> micro_batches = {});
  double of(const ScheduleOp& op) const override;  // requires an entry for the stages of op

 private:
  double factor(std::int32_t direction, std::int32_t micro_batch) const;

  std::vector<StageCost> stages_;
  double pair_;
  std::vector<std::vector<double>> micro_batches_;
};

}  // namespace plumbline::model
