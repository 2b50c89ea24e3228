// A radix heap of events (Ahuja, Mehlhorn, Orlin, Tarjan 1990), ordered by time, then priority, then scheduling. It
// relies on time that never goes back: an event lies in a bucket by the highest bit in which its time differs from that
// of the last event taken, and moves to lower buckets only, at most once per bit. Events of one time are sorted once.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
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
  // These require an event.
  Time first_time() const {
    if (!now_.empty()) return last_;
    if (next_ == unknown)
      for (const Scheduled& event : buckets_[static_cast<std::size_t>(std::countr_zero(filled_))])
        next_ = std::min(next_, event.time);
    return next_;
  }
  Scheduled take_first() {
    if (now_.empty()) move_to_next_time();
    const Scheduled first = now_.back();
    now_.pop_back();
    --size_;
    next_ = unknown;
    return first;
  }

 private:
  static constexpr int sequence_bits = 48;
  static constexpr Time unknown = INT64_MAX;

  static bool comes_later(const Scheduled& a, const Scheduled& b) { return a.order > b.order; }
  void push_now(const Scheduled& event) { now_.insert(std::ranges::upper_bound(now_, event, comes_later), event); }
  void put(const Scheduled& event) {
    assert(event.time > last_ && "an event in the past");
    const int bit = 63 - std::countl_zero(static_cast<std::uint64_t>(event.time ^ last_));
    buckets_[static_cast<std::size_t>(bit)].push_back(event);
    filled_ |= std::uint64_t{1} << bit;
  }
  // Spreads the lowest bucket, which has the earliest events, over those below it.
  void move_to_next_time() {
    last_ = first_time();
    const int lowest = std::countr_zero(filled_);
    filled_ &= ~(std::uint64_t{1} << lowest);
    std::vector<Scheduled>& bucket = buckets_[static_cast<std::size_t>(lowest)];
    for (const Scheduled& event : bucket) {
      if (event.time == last_)
        now_.push_back(event);
      else
        put(event);
    }
    bucket.clear();
    std::ranges::sort(now_, comes_later);
  }

  std::array<std::vector<Scheduled>, 64> buckets_;
  std::uint64_t filled_ = 0;     // a bit per bucket that has events
  std::vector<Scheduled> now_;   // events at last_, the first one at the back
  Time last_ = 0;                // of the last event taken
  mutable Time next_ = unknown;  // the earliest time, where it is not unknown
  std::size_t size_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace plumbline::sim
