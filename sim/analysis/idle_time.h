// The causes of a pipeline rank's idle time between its slots. Each is removed in turn from the schedule's recurrence.
#pragma once

#include <cstddef>
#include <vector>

#include "model/schedule/schedule_table.h"

namespace plumbline::sim {

// The parts add up to the idle time that was split. None is negative unless that is.
struct IdleTime {             // s
  double point_to_point = 0;  // removed if messages between stages took no time
  double uneven_stages = 0;   // removed if every op also took the mean of its kind
  double fill_and_drain = 0;  // the rest: dependencies of the schedule with equal stages
  double bubble() const { return uneven_stages + fill_and_drain; }
};

// Splits `idle` seconds of a rank up to the end of its pipeline. Each slot took class_seconds of its slot class and a
// message between ranks `p2p` seconds. With R(p2p, seconds) the rank's idle time in the recurrence:
//   point_to_point = R(p2p, class_seconds) - R(0, class_seconds)
//   uneven_stages  = R(0, class_seconds) - R(0, means)
// each between 0 and what is left of `idle`. In the recurrence messages do not wait for each other; where they do, that
// wait counts as fill and drain.
IdleTime split_idle(const model::ScheduleTable& table, const std::vector<double>& class_seconds, double p2p,
                    std::size_t rank, double idle);

}  // namespace plumbline::sim
