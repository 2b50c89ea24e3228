#include "sim/search/detail/schedule_bound.h"

#include <algorithm>

namespace plumbline::sim {

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

}  // namespace plumbline::sim
