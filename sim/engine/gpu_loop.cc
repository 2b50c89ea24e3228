#include "sim/engine/gpu_loop.h"

#include <cassert>
#include <utility>

namespace plumbline::sim {

void GpuLoop::at(Time time, const Task& task) {
  assert(time >= now_ && "an event in the past");
  places_[task.code == GpuModel::stage_code ? GpuModel::stream_of(task) : GpuModel::streams] = {time, scheduled_++,
                                                                                                task};
}

FlowId GpuLoop::flow(const Flow& /*flow*/, const Task& /*done*/) {
  assert(false && "no links here");
  return {};
}

void GpuLoop::set_rate_limit(FlowId /*flow*/, double /*rate_limit*/) { assert(false && "no links here"); }

std::size_t GpuLoop::first() const {
  std::size_t first = 0;
  for (std::size_t i = 1; i < places_.size(); ++i)
    if (std::pair(places_[i].time, places_[i].order) < std::pair(places_[first].time, places_[first].order)) first = i;
  return first;
}

void GpuLoop::run_next() {
  Place& place = places_[first()];
  now_ = place.time;
  place.time = never;
  place.task.handler->handle(place.task.code, place.task.argument);
}

std::uint64_t GpuLoop::run() {
  std::uint64_t events = 0;
  for (; next() != never; ++events) run_next();
  return events;
}

}  // namespace plumbline::sim
