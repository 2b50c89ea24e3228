// A four-ary heap of events, ordered by time, then priority, then scheduling, without allocation per event.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/loop.h"

namespace plumbline::sim {

struct Scheduled {
  Time time = 0;
  std::uint64_t order = 0;  // priority in the high bits, then sequence
  Task task;
};

class EventHeap {
 public:
  // Returns the position of an event scheduled now among the events of the same time.
  std::uint64_t next_order(std::uint16_t priority) {
    return (static_cast<std::uint64_t>(priority) << sequence_bits) | sequence_++;
  }
  void push(const Scheduled& event);
  bool empty() const { return heap_.empty(); }
  const Scheduled& first() const { return heap_.front(); }
  Scheduled take_first();

 private:
  static constexpr int sequence_bits = 48;
  static bool before(const Scheduled& a, const Scheduled& b) {
    return a.time != b.time ? a.time < b.time : a.order < b.order;
  }

  std::vector<Scheduled> heap_;
  std::uint64_t sequence_ = 0;
};

}  // namespace plumbline::sim
