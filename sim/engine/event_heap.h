// A radix heap of events (Ahuja, Mehlhorn, Orlin, Tarjan 1990), ordered by time, then priority, then scheduling. It
// relies on time that never goes back: an event lies in a bucket by the highest bit in which its time differs from that
// of the last event taken, and moves to lower buckets only, at most once per bit. Events of one time are sorted once.
#pragma once

#include <algorithm>
#include <array>
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
  // Requires a time that is not before that of the last event taken, nor negative.
  void push(const Scheduled& event) {
    ++size_;
    if (next_ != unknown) next_ = std::min(next_, event.time);
    if (event.time == last_) return push_now(event);
    put(event);
  }
  bool empty() const { return size_ == 0; }
  Time first_time() const;  // requires an event
  Scheduled take_first();   // requires an event

 private:
  static constexpr int sequence_bits = 48;
  static constexpr Time unknown = INT64_MAX;
  void push_now(const Scheduled& event);
  void put(const Scheduled& event);
  void move_to_next_time();

  std::array<std::vector<Scheduled>, 64> buckets_;
  std::uint64_t filled_ = 0;     // a bit per bucket that has events
  std::vector<Scheduled> now_;   // events at last_, the first one at the back
  Time last_ = 0;                // of the last event taken
  mutable Time next_ = unknown;  // the earliest time, where it is not unknown
  std::size_t size_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace plumbline::sim
