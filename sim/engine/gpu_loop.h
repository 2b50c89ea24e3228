// The event loop of one GPU alone, between barriers with others. Each stream has at most one event ahead, and a newly
// scheduled event voids the earlier one. One slot per stream therefore replaces the heap.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "sim/engine/gpu_model.h"
#include "sim/engine/loop.h"

namespace plumbline::sim {

class GpuLoop final : public Loop {
 public:
  Time now() const override { return now_; }
  // Takes tasks of one GPU, and one task at a time of its listener, which uses another code.
  void at(Time time, const Task& task) override {
    assert(time >= now_ && "an event in the past");
    const std::size_t place = task.code == GpuModel::stage_code ? GpuModel::stream_of(task) : GpuModel::streams;
    if (place == first_)
      first_known_ = false;
    else if (time < places_[first_].time)  // of events at the same time the earlier scheduled one is first
      first_ = place;
    places_[place] = {time, scheduled_++, task};
  }
  // Is never called: a GPU starts flows only where it has links.
  FlowId flow(const Flow& /*flow*/, const Task& /*done*/) override {
    assert(false && "no links here");
    return {};
  }
  void set_rate_limit(FlowId /*flow*/, double /*rate_limit*/) override { assert(false && "no links here"); }

  std::uint64_t run() override {
    std::uint64_t events = 0;
    for (; next() != never; ++events) run_next();
    return events;
  }

  static constexpr Time never = INT64_MAX;
  Time next() const { return places_[first()].time; }  // `never` when no event is left
  void run_next() {
    Place& place = places_[first()];
    now_ = place.time;
    place.time = never;
    first_known_ = false;
    place.task.handler->handle(place.task.code, place.task.argument);
  }
  void move_to(Time time) { now_ = time; }  // requires time <= next()

 private:
  struct Place {
    Time time = never;
    std::uint64_t order = 0;
    Task task;
  };
  std::size_t first() const {
    if (!first_known_) find_first();
    return first_;
  }
  void find_first() const {
    first_ = 0;
    for (std::size_t i = 1; i < places_.size(); ++i) {
      const Place &place = places_[i], &first = places_[first_];
      if (place.time < first.time || (place.time == first.time && place.order < first.order)) first_ = i;
    }
    first_known_ = true;
  }

  std::array<Place, GpuModel::streams + 1> places_;  // the last one is the listener's
  mutable std::size_t first_ = 0;                    // the place of the next event
  mutable bool first_known_ = true;
  std::uint64_t scheduled_ = 0;
  Time now_ = 0;
};

}  // namespace plumbline::sim
