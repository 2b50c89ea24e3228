// Why a pipeline rank idles between its slots: the schedule's own recurrence, run again without what may be the cause.
#pragma once

#include <cstddef>
#include <vector>

#include "model/schedule/schedule_table.h"

namespace plumbline::sim {

// They add up to the idle time that was asked about; none is below zero unless that is.
struct IdleTime {             // s
  double point_to_point = 0;  // gone if messages between stages took no time
  double uneven_stages = 0;   // and if every op took the mean of its kind
  double fill_and_drain = 0;  // what is left: dependencies of the schedule with equal stages
  double bubble() const { return uneven_stages + fill_and_drain; }
};

// `idle` seconds of a rank up to the end of its pipeline, in which each slot took class_seconds of its slot class and a
// message between ranks `hop` seconds. With R(hop, seconds) the rank's idle time in the recurrence:
//   point_to_point = R(hop, class_seconds) - R(0, class_seconds)
//   uneven_stages  = R(0, class_seconds) - R(0, means)
// each between 0 and what is left of `idle`. In the recurrence messages do not wait for each other; where they do, that
// wait counts as fill and drain.
IdleTime split_idle(const model::ScheduleTable& table, const std::vector<double>& class_seconds, double p2p,
                    std::size_t rank, double idle);

}  // namespace plumbline::sim
