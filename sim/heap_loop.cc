#include "sim/heap_loop.h"

#include <algorithm>
#include <cassert>

namespace plumbline::sim {

namespace {

constexpr std::size_t arity = 4;
constexpr int sequence_bits = 48;

}  // namespace

void HeapLoop::at(Time time, const Task& task) {
  assert(time >= now_ && "an event in the past");
  const Event event{time, (static_cast<std::uint64_t>(task.priority) << sequence_bits) | sequence_++, task};
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

HeapLoop::Event HeapLoop::take_first() {
  const Event first = heap_.front();
  const Event last = heap_.back();
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

std::uint64_t HeapLoop::run() {
  std::uint64_t events = 0;
  while (!heap_.empty()) {
    const Event event = take_first();
    now_ = event.time;
    event.task.handler->handle(event.task.code, event.task.argument);
    ++events;
  }
  return events;
}

}  // namespace plumbline::sim
