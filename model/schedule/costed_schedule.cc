#include "model/schedule/costed_schedule.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "model/schedule/chunk_costs.h"
#include "model/schedule/lower_bound.h"

namespace plumbline::model {
namespace {

// The stages of a cost file. Forward and backward of a pair may be of different stages; F and B are each scaled by
// FB / (F + B) of their own stage.
class ListedCosts final : public ChunkCosts {
 public:
  ListedCosts(const CostTable& costs, std::vector<std::vector<double>> factors)
      : ChunkCosts(costs.uniform.p2p),
        alone_(stages_of(costs, false), costs.uniform.p2p, 1, factors),
        paired_(stages_of(costs, true), costs.uniform.p2p, 1, std::move(factors)) {}
  double of(const ScheduleOp& op) const override { return (op.type == OpType::FB ? paired_ : alone_).of(op); }

 private:
  static std::vector<StageCost> stages_of(const CostTable& costs, bool paired) {
    std::vector<StageCost> stages;
    for (const ScheduleCosts& c : costs.stages) {
      const double sum = c.F + c.B;
      const double part = paired && sum > 0 ? c.FB / sum : 1;
      stages.push_back({part * c.F, part * c.B, c.I, c.W});
    }
    return stages;
  }

  StageCosts alone_, paired_;
};

Result<void> check_costs(const Schedule& schedule, const CostTable& costs) {
  const auto wrong = [&](std::string key, std::string message) {
    return wrong_input_at(costs.file, 0, std::move(key), std::move(message));
  };
  const auto stages = static_cast<std::size_t>(schedule.stages);
  const auto micro_batches = static_cast<std::size_t>(schedule.shape.micro_batches);
  if (!costs.stages.empty() && costs.stages.size() != stages) {
    return wrong("stage", fmt::format("lists {} stages, but {} of this shape has {}", costs.stages.size(),
                                      schedule.kind, stages));
  }
  if (!costs.micro_batch_factors.empty() && costs.micro_batch_factors.size() != micro_batches) {
    return wrong("micro_batch_factors", fmt::format("lists {} micro-batches, but there are {}",
                                                    costs.micro_batch_factors.size(), micro_batches));
  }
  return {};
}

// Returns the factors by direction; with two directions the first half of the list belongs to direction 0.
std::vector<std::vector<double>> factors_by_direction(const Schedule& schedule, const CostTable& costs) {
  if (costs.micro_batch_factors.empty()) return {};
  const auto& list = costs.micro_batch_factors;
  const auto directions = static_cast<std::size_t>(schedule.directions);
  const std::size_t each = (list.size() + directions - 1) / directions;
  std::vector<std::vector<double>> factors(directions);
  for (std::size_t i = 0; i < list.size(); ++i) factors[i / each].push_back(list[i]);
  return factors;
}

std::unique_ptr<ChunkCosts> chunk_costs(const Schedule& schedule, const CostTable& costs) {
  if (costs.stages.empty()) return std::make_unique<UniformCosts>(costs.uniform);
  return std::make_unique<ListedCosts>(costs, factors_by_direction(schedule, costs));
}

}  // namespace

Result<CostedSchedule> evaluate_schedule(const ScheduleKind& kind, const ScheduleShape& shape, const CostTable& costs) {
  TRY(kind.check(shape));
  CostedSchedule output;
  output.schedule = kind.build(shape);
  TRY(check_costs(output.schedule, costs));
  output.costs = costs;
  const auto chunks = chunk_costs(output.schedule, costs);
  auto evaluation = TRY(evaluate(output.schedule, *chunks));
  output.evaluation = std::move(evaluation);
  for (std::size_t rank = 0; rank < output.schedule.ranks.size(); ++rank) {
    auto& ends = output.end.emplace_back(output.evaluation.start[rank]);
    for (std::size_t i = 0; i < ends.size(); ++i) ends[i] += chunks->of(output.schedule.ranks[rank][i]);
  }
  if (costs.stages.empty()) output.exact_makespan = kind.exact_makespan(shape, costs.uniform);
  output.lower_bound = lower_bound(output.schedule, *chunks);
  return output;
}

}  // namespace plumbline::model
