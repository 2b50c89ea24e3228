// Runs a schedule with given costs, by its dependencies, the op order of its ranks, and point-to-point transfers.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/schedule/schedule.h"
#include "model/schedule/schedule_table.h"

namespace plumbline::model {

// States what the ops of a schedule cost where stages or micro-batches differ.

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

struct ScheduleEvaluation {
  double makespan = 0;
  std::vector<double> busy;                    // per rank
  std::vector<double> idle;                    // per rank: makespan - busy
  std::vector<double> window;                  // per rank: end of last op - start of first op
  std::vector<std::int32_t> peak_activations;  // per rank, chunks
  std::vector<std::vector<double>> start;      // per rank, per op
};

// `mode` defaults to eager, as the JSON contract states. Fails (infeasible) when the schedule deadlocks and names the
// ops that wait for each other.
Result<ScheduleEvaluation> evaluate(const Schedule& schedule, const ScheduleCosts& costs,
                                    PointToPoint mode = PointToPoint::eager);
Result<ScheduleEvaluation> evaluate(const Schedule& schedule, const ChunkCosts& costs,
                                    PointToPoint mode = PointToPoint::eager);

// Computes a lower bound on the step time from the ops that a schedule gives to each rank and their shortest times: no
// order of these ops on their ranks ends earlier. Each rank first waits for the shortest path from stage 0 to one of
// its stages. It then does all its work. After its last op the shortest path of a gradient back to stage 0 remains,
// unless that op can be a weight gradient. In addition, one micro-batch must pass all stages forward and backward.

// The inputs of the bound; their size depends on the distinct ops, not on the number of micro-batches.
struct ScheduleOutline {
  using Counts = std::vector<std::pair<std::uint32_t, std::int64_t>>;  // slot class, ops; by class

  std::vector<ScheduleTable::SlotClass> classes;
  std::vector<Counts> ranks;
  std::vector<bool> transfers;  // [stage]: the stage before it lies on another rank

  explicit ScheduleOutline(const ScheduleTable& table);
};

// `costs` are the times of the ops of each slot class, `transfer` that of a message between ranks, in any one unit.
double lower_bound(const ScheduleOutline& outline, const std::vector<double>& costs, double transfer);

// Returns the same for costs that may differ by micro-batch. The schedule must not deadlock.
double lower_bound(const Schedule& schedule, const ChunkCosts& costs);

}  // namespace plumbline::model
