#include "sim/engine/event_heap.h"

#include <algorithm>
#include <cstddef>

namespace plumbline::sim {

namespace {

constexpr std::size_t arity = 4;

}  // namespace

void EventHeap::push(const Scheduled& event) {
  std::size_t hole = heap_.size();
  heap_.push_back(event);
  while (hole > 0) {
    const std::size_t parent = (hole - 1) / arity;
    if (!before(event, heap_[parent])) break;
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = event;
}

Scheduled EventHeap::take_first() {
  const Scheduled first = heap_.front();
  const Scheduled last = heap_.back();
  heap_.pop_back();
  const std::size_t size = heap_.size();
  if (size == 0) return first;
  std::size_t hole = 0;
  for (std::size_t child = 1; child < size; child = arity * hole + 1) {
    std::size_t best = child;
    for (std::size_t other = child + 1; other < std::min(child + arity, size); ++other)
      if (before(heap_[other], heap_[best])) best = other;
    if (!before(heap_[best], last)) break;
    heap_[hole] = heap_[best];
    hole = best;
  }
  heap_[hole] = last;
  return first;
}

}  // namespace plumbline::sim
