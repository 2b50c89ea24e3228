#include "sim/engine/event_heap.h"

#include <bit>
#include <cassert>
#include <cstddef>

namespace plumbline::sim {
namespace {

bool comes_later(const Scheduled& a, const Scheduled& b) { return a.order > b.order; }

}  // namespace

void EventHeap::push_now(const Scheduled& event) {
  now_.insert(std::ranges::upper_bound(now_, event, comes_later), event);
}

void EventHeap::put(const Scheduled& event) {
  assert(event.time > last_ && "an event in the past");
  const int bit = 63 - std::countl_zero(static_cast<std::uint64_t>(event.time ^ last_));
  buckets_[static_cast<std::size_t>(bit)].push_back(event);
  filled_ |= std::uint64_t{1} << bit;
}

Time EventHeap::first_time() const {
  if (!now_.empty()) return last_;
  if (next_ == unknown)
    for (const Scheduled& event : buckets_[static_cast<std::size_t>(std::countr_zero(filled_))])
      next_ = std::min(next_, event.time);
  return next_;
}

// Spreads the lowest bucket, which has the earliest events, over those below it.
void EventHeap::move_to_next_time() {
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

Scheduled EventHeap::take_first() {
  if (now_.empty()) move_to_next_time();
  const Scheduled first = now_.back();
  now_.pop_back();
  --size_;
  next_ = unknown;
  return first;
}

}  // namespace plumbline::sim
