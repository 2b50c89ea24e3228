#include "sim/engine/gpu_loop.h"

#include <cassert>

namespace plumbline::sim {

void GpuLoop::at(Time time, const Task& task) {
  assert(time >= now_ && "an event in the past");
  const std::size_t place = task.code == GpuModel::stage_code ? GpuModel::stream_of(task) : GpuModel::streams;
  if (place == first_)
    first_known_ = false;
  else if (time < places_[first_].time)  // of events at the same time the earlier scheduled one is first
    first_ = place;
  places_[place] = {time, scheduled_++, task};
}

FlowId GpuLoop::flow(const Flow& /*flow*/, const Task& /*done*/) {
  assert(false && "no links here");
  return {};
}

void GpuLoop::set_rate_limit(FlowId /*flow*/, double /*rate_limit*/) { assert(false && "no links here"); }

void GpuLoop::find_first() const {
  first_ = 0;
  for (std::size_t i = 1; i < places_.size(); ++i) {
    const Place &place = places_[i], &first = places_[first_];
    if (place.time < first.time || (place.time == first.time && place.order < first.order)) first_ = i;
  }
  first_known_ = true;
}

void GpuLoop::run_next() {
  Place& place = places_[first()];
  now_ = place.time;
  place.time = never;
  first_known_ = false;
  place.task.handler->handle(place.task.code, place.task.argument);
}

std::uint64_t GpuLoop::run() {
  std::uint64_t events = 0;
  for (; next() != never; ++events) run_next();
  return events;
}

}  // namespace plumbline::sim
