// Runs a schedule with given costs, by its dependencies, the op order of its ranks, and point-to-point transfers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
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

// Compares all registered schedules on the same work.

// Reads the costs of a schedule's ops as a user writes them: one line for all stages, or a file with a row for each.

struct CostTable {
  ScheduleCosts uniform;                    // costs of every stage, unless `stages` lists them; p2p always applies
  std::vector<ScheduleCosts> stages;        // from a file: in pipeline order; their p2p is unused
  std::vector<double> micro_batch_factors;  // from a file: a factor on the ops of each micro-batch; may be empty
  std::string file;                         // where `stages` come from
};

// Returns whether a value can be a cost: sums over a step stay finite.
inline bool is_cost(double value) { return value >= 0 && value <= 1e100; }
inline constexpr const char* not_a_cost = "not a number from 0 to 1e100";

// Reads "F=1,I=1,W=1,FB=3,p2p=0" in any order, each key optional: F, I and W default to 1, p2p to 0, B to I + W and FB
// to F + B. An unknown key or a value that is no cost is an input error.
Result<ScheduleCosts> parse_costs(std::string_view text);

// Reads the inline form, or a file whose name ends in .toml or .csv:
//   p2p = 0.1                          # default 0
//   micro_batch_factors = [1, 1.2]     # default 1 each; with two directions those of direction 0 first
//   [[stage]]                          # one per stage; B defaults to I + W, FB to F + B
//   F = 1.0
//   I = 1.0
//   W = 1.0
// A CSV file has a header with F, I, W and optionally B and FB, and one line per stage. Errors are input errors with
// file, line, key and the nearest known name.
Result<CostTable> read_costs(const std::string& text_or_file);

// Read the contents of such files; errors name `file`.
Result<CostTable> costs_from_toml(const std::string& text, const std::string& file);
Result<CostTable> costs_from_csv(const std::string& text, const std::string& file);

// Evaluates a schedule with the costs of its ops.

struct CostedSchedule {
  Schedule schedule;
  CostTable costs;
  ScheduleEvaluation evaluation;         // under eager point-to-point
  std::vector<std::vector<double>> end;  // per rank, per op
  std::optional<double> exact_makespan;
  double lower_bound = 0;  // no order of these ops on these ranks is shorter
};

// Fails as infeasible where the schedule does not exist for the shape, and with an input error where a cost file lists
// another number of stages or micro-batches than the schedule has.
Result<CostedSchedule> evaluate_schedule(const ScheduleKind& kind, const ScheduleShape& shape, const CostTable& costs);

struct ComparedSchedule {
  std::string kind;
  std::int32_t micro_batches = 1;
  std::optional<Error> infeasible;  // why the schedule does not exist for the shape; the rest is then unset
  std::int32_t chunks = 1;          // per rank, both directions together
  double makespan = 0;
  double average_bubble = 0, worst_bubble = 0;  // idle share of the average and of the worst rank
  double peak_activations = 0;                  // highest of any rank, in stages of a pipeline with one stage per rank
  std::int32_t parameter_copies = 1;
  std::optional<double> exposed_p2p;  // what p2p adds to the makespan, over p2p; none where p2p is 0
  double lower_bound = 0;

  std::string reason() const;  // why it is infeasible, with the remedy
};

// The costs are those of a pipeline of one stage per rank. Each schedule gets the same work: where it cuts the model
// into c times as many stages, a chunk costs 1/c and a message the same. In every schedule a rank computes M times F +
// B (or F + I + W) of a stage. The chunks per rank of `shape` apply to schedules that have this choice. Fails (input)
// where the costs do not fit the shape.
Result<std::vector<ComparedSchedule>> compare_schedules(const ScheduleShape& shape, const CostTable& costs);

// Returns the costs of the same model cut into `stages` instead of `ranks` stages.
CostTable cut_costs(const CostTable& costs, std::int32_t ranks, std::int32_t stages);

}  // namespace plumbline::model
