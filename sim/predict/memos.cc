#include "sim/predict/memos.h"

#include <algorithm>
#include <string_view>

#include "model/base/bytes.h"
#include "model/plan/layout.h"
#include "sim/predict/inputs.h"
#include "topologies/fabric.h"

namespace plumbline::sim {

model::RoutingSpread ExpertGroupMemo::spread(const model::MixtureOfExperts& experts, std::int64_t groups_per_token,
                                             std::int64_t expert_parallel, std::int64_t ranks_per_node) {
  const Key key = {
      experts.routed_experts, experts.groups, experts.experts_per_token, experts.group_score_experts, groups_per_token,
      expert_parallel,        ranks_per_node};
  return spreads_.find(
      key, [&] { return model::routing_spread(experts, groups_per_token, expert_parallel, ranks_per_node); });
}

std::vector<double> ExpertGroupMemo::straggler_waits(const std::string& bytes,
                                                     const std::function<std::vector<double>()>& run) {
  if (runs_ > most_runs) {
    waits_.clear();
    runs_ = 0;
  }
  return waits_.find({std::hash<std::string>{}(bytes), model::hash_of(bytes)}, [&] {
    ++runs_;
    return run();
  });
}

model::RoutingSpread spread_of(const Inputs& inputs) { return spread_of(inputs, inputs.plan); }

std::int64_t expert_node_gpus(const Inputs& inputs, const model::Plan& plan) {
  return inputs.fabric ? topologies::expert_node_gpus(*inputs.fabric, plan) : inputs.cluster.gpus_per_node;
}

model::RoutingSpread spread_of(const Inputs& inputs, const model::Plan& plan) {
  const model::MixtureOfExperts& experts = inputs.architecture.experts;
  ExpertGroupMemo* memo = inputs.routing.get();
  const std::int64_t groups = model::groups_per_token(plan, experts);
  const auto [ranks, stride] = model::expert_group(plan.parallelism);
  const std::int64_t per_node = expert_node_gpus(inputs, plan) / stride;
  const std::int64_t ranks_per_node = std::min(ranks, std::max<std::int64_t>(1, per_node));
  return memo != nullptr ? memo->spread(experts, groups, ranks, ranks_per_node)
                         : model::routing_spread(experts, groups, ranks, ranks_per_node);
}

ScheduleTables::Prepared ScheduleTables::find(const model::ScheduleKind& kind, const model::ScheduleShape& shape) {
  if (ops_ > most_ops) {
    known_.clear();
    ops_ = 0;
  }
  const auto name = static_cast<std::int64_t>(std::hash<std::string_view>{}(kind.name()));
  const Key key = {name, shape.ranks, shape.micro_batches, shape.virtual_stages, shape.micro_batch_group};
  return known_.find(key, [&]() -> Prepared {
    auto table = TRY(model::make_schedule_table(kind, shape));
    ops_ += table.ops.size();
    model::ScheduleOutline outline(table);
    return std::make_shared<const PreparedSchedule>(PreparedSchedule{std::move(table), std::move(outline)});
  });
}

}  // namespace plumbline::sim
