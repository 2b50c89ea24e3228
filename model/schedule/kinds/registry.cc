#include <fmt/format.h>

#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {

std::span<const ScheduleKind* const> schedule_kinds() {
  static const ScheduleKind* const kinds[] = {
      &gpipe(),       &one_forward_one_backward(),
      &interleaved(), &interleaved_overlap(),
      &zb_h1(),       &zb_h2(),
      &zb_v(),        &dualpipe(),
      &dualpipev(),
  };
  return kinds;
}

Result<const ScheduleKind*> find_schedule(std::string_view name) {
  std::vector<std::string> names;
  for (const ScheduleKind* kind : schedule_kinds()) {
    if (kind->name() == name) return kind;
    names.emplace_back(kind->name());
  }
  return wrong_input("schedule.kind", fmt::format("unknown schedule '{}'", name),
                     did_you_mean(name, names, fmt::format("known schedules: {}", fmt::join(names, ", "))));
}

}  // namespace plumbline::model
