// The project's own event loop: a four-ary heap of small events, no allocation per event.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/loop.h"

namespace plumbline::sim {

class HeapLoop final : public Loop {
 public:
  Time now() const override { return now_; }
  void at(Time time, const Task& task) override;

  // Runs until no event is left. Returns the number of events run.
  std::uint64_t run();

 private:
  struct Event {
    Time time;
    std::uint64_t order;  // priority in the high bits, then sequence
    Task task;
  };
  static bool before(const Event& a, const Event& b) { return a.time != b.time ? a.time < b.time : a.order < b.order; }
  Event take_first();

  std::vector<Event> heap_;
  std::uint64_t sequence_ = 0;
  Time now_ = 0;
};

}  // namespace plumbline::sim
