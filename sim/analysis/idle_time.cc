#include "sim/analysis/idle_time.h"

#include <algorithm>
#include <array>

namespace plumbline::sim {

namespace {

// Gives every op the mean of its kind over all ranks, so that the total work of all ranks stays the same.
std::vector<double> means_by_kind(const model::ScheduleTable& table, const std::vector<double>& class_seconds) {
  std::array<double, 5> sums{}, counts{};
  for (const model::ScheduleTable::Op& op : table.ops) {
    sums[static_cast<std::size_t>(op.type)] += class_seconds[op.slot_class];
    ++counts[static_cast<std::size_t>(op.type)];
  }
  std::vector<double> means;
  for (const model::ScheduleTable::SlotClass& one : table.classes) {
    const auto type = static_cast<std::size_t>(one.type);
    means.push_back(sums[type] / std::max(1.0, counts[type]));
  }
  return means;
}

double idle_in_recurrence(const model::ScheduleTable& table, const std::vector<double>& class_seconds, double p2p,
                          std::size_t rank) {
  double busy = 0, last = 0;
  model::run_table(
      table, p2p, [&](std::size_t i) { return class_seconds[table.ops[i].slot_class]; },
      [&](std::size_t i, double, double end) {
        last = std::max(last, end);
        if (table.ops[i].rank == rank) busy += class_seconds[table.ops[i].slot_class];
      });
  return last - busy;
}

}  // namespace

IdleTime split_idle(const model::ScheduleTable& table, const std::vector<double>& class_seconds, double p2p,
                    std::size_t rank, double idle) {
  IdleTime result;
  result.fill_and_drain = idle;
  if (table.ranks.size() == 1 || idle <= 0) return result;
  const auto take = [&result](double seconds) {
    const double taken = std::clamp(seconds, 0.0, result.fill_and_drain);
    result.fill_and_drain -= taken;
    return taken;
  };
  const double without_p2p = idle_in_recurrence(table, class_seconds, 0, rank);
  result.point_to_point = take(idle_in_recurrence(table, class_seconds, p2p, rank) - without_p2p);
  result.uneven_stages = take(without_p2p - idle_in_recurrence(table, means_by_kind(table, class_seconds), 0, rank));
  return result;
}

}  // namespace plumbline::sim
