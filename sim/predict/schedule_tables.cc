#include "sim/predict/schedule_tables.h"

#include <algorithm>
#include <utility>

namespace plumbline::sim {

ScheduleTables::Key ScheduleTables::key_of(const model::ScheduleKind& kind, const model::ScheduleShape& shape) {
  const auto kinds = model::schedule_kinds();
  return {std::ranges::find(kinds, &kind) - kinds.begin(), shape.ranks, shape.micro_batches, shape.virtual_stages,
          shape.micro_batch_group};
}

ScheduleTables::Table ScheduleTables::find(const model::ScheduleKind& kind, const model::ScheduleShape& shape) {
  if (ops_ > most_ops) {
    known_.clear();
    ops_ = 0;
  }
  return known_.find(key_of(kind, shape), [&]() -> Table {
    auto made = model::make_schedule_table(kind, shape);
    if (!made) return tl::unexpected(made.error());
    ops_ += made->ops.size();
    return std::make_shared<const model::ScheduleTable>(std::move(*made));
  });
}

}  // namespace plumbline::sim
