#include "sim/predict/schedule_tables.h"

#include <algorithm>
#include <utility>

namespace plumbline::sim {

model::Result<std::shared_ptr<const model::ScheduleTable>> ScheduleTables::find(const model::ScheduleKind& kind,
                                                                                const model::ScheduleShape& shape) {
  const auto kinds = model::schedule_kinds();
  const Key key = {std::ranges::find(kinds, &kind) - kinds.begin(), shape.ranks, shape.micro_batches,
                   shape.virtual_stages, shape.micro_batch_group};
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  // Made without the lock: threads that want the same at the same time make the same.
  auto made = model::make_schedule_table(kind, shape);
  if (!made) return tl::unexpected(made.error());
  auto table = std::make_shared<const model::ScheduleTable>(std::move(*made));
  const std::scoped_lock lock(mutex_);
  if (ops_ > most_ops) {
    known_.clear();
    ops_ = 0;
  }
  const auto [entry, fresh] = known_.try_emplace(key, std::move(table));
  if (fresh) ops_ += entry->second->ops.size();
  return entry->second;
}

}  // namespace plumbline::sim
