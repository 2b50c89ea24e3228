#include "sim/search/detail/schedule_bound.h"

#include <algorithm>
#include <limits>

namespace plumbline::sim {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

struct Ways {  // [stage], seconds
  std::vector<double> in, out;
  double round_trip = 0;
};

Ways ways_of(const ScheduleOutline& outline, const std::vector<double>& costs, double hop) {
  const std::size_t stages = outline.hops.size();
  std::vector<double> forward(stages, never), backward(stages, never);  // the cheapest op of each stage
  for (std::size_t c = 0; c < costs.size(); ++c) {
    const auto& one = outline.classes[c];
    if (one.f_stage >= 0) {
      double& cheapest = forward[static_cast<std::size_t>(one.f_stage)];
      cheapest = std::min(cheapest, costs[c]);
    }
    if (one.b_stage >= 0 && one.type != model::OpType::W) {
      double& cheapest = backward[static_cast<std::size_t>(one.b_stage)];
      cheapest = std::min(cheapest, costs[c]);
    }
  }
  Ways ways{std::vector<double>(stages, 0), std::vector<double>(stages, 0), 0};
  for (std::size_t stage = 1; stage < stages; ++stage) {
    const double message = outline.hops[stage] ? hop : 0;
    ways.in[stage] = ways.in[stage - 1] + forward[stage - 1] + message;
    ways.out[stage] = ways.out[stage - 1] + backward[stage - 1] + message;
  }
  ways.round_trip = ways.in.back() + forward.back() + backward.back() + ways.out.back();
  return ways;
}

}  // namespace

ScheduleOutline::ScheduleOutline(const model::ScheduleTable& table) : classes(table.classes) {
  for (const model::ScheduleTable::Rank& from : table.ranks) {
    Rank& rank = ranks.emplace_back();
    rank.stages = from.stages;
    std::map<std::uint16_t, std::int64_t> counts;
    for (const std::uint32_t op : from.ops) ++counts[table.ops[op].slot_class];
    rank.counts.assign(counts.begin(), counts.end());
    for (const auto& [slot_class, ops] : rank.counts)
      rank.weights = rank.weights || classes[slot_class].type == model::OpType::W;
  }
  hops.push_back(false);
  for (std::int32_t stage = 1; stage < table.outline.stages; ++stage)
    hops.push_back(table.outline.rank_of(0, stage) != table.outline.rank_of(0, stage - 1));
}

const ScheduleOutline* ScheduleOutlines::find(const model::ScheduleKind& kind, const model::ScheduleShape& shape) {
  const auto kinds = model::schedule_kinds();
  const Key key = {std::ranges::find(kinds, &kind) - kinds.begin(), shape.ranks, shape.micro_batches,
                   shape.virtual_stages, shape.micro_batch_group};
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second.get();
  }
  // Made without the lock: threads that want the same at the same time make the same.
  const auto table = tables_->find(kind, shape);
  auto made = table ? std::make_unique<ScheduleOutline>(**table) : nullptr;
  const std::scoped_lock lock(mutex_);
  return known_.try_emplace(key, std::move(made)).first->second.get();
}

double schedule_bound(const ScheduleOutline& outline, const std::vector<double>& costs, double hop) {
  const Ways ways = ways_of(outline, costs, hop);
  double bound = ways.round_trip;
  for (const ScheduleOutline::Rank& rank : outline.ranks) {
    double fill = never, work = 0, drain = rank.weights ? 0 : never;
    for (const std::int32_t stage : rank.stages) {
      fill = std::min(fill, ways.in[static_cast<std::size_t>(stage)]);
      drain = std::min(drain, ways.out[static_cast<std::size_t>(stage)]);
    }
    for (const auto& [slot_class, ops] : rank.counts) work += static_cast<double>(ops) * costs[slot_class];
    bound = std::max(bound, fill + work + drain);
  }
  return bound;
}

}  // namespace plumbline::sim
