#include "sim/search/detail/schedule_bound.h"

namespace plumbline::sim {

const ScheduleOutline* ScheduleOutlines::find(const model::ScheduleKind& kind, const model::ScheduleShape& shape) {
  const auto made = known_.find(ScheduleTables::key_of(kind, shape), [&] {
    const auto table = tables_->find(kind, shape);
    return table ? std::make_shared<const ScheduleOutline>(**table) : nullptr;
  });
  return made.get();
}

}  // namespace plumbline::sim
