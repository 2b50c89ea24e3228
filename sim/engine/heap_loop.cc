#include "sim/engine/heap_loop.h"

#include <algorithm>
#include <cassert>

#include "sim/engine/flow_rules.h"

namespace plumbline::sim {

const std::vector<topologies::Link> HeapLoop::no_links;

void HeapLoop::at(Time time, const Task& task) {
  assert(time >= now_ && "an event in the past");
  events_.push({time, events_.next_order(task.priority), task});
}

FlowId HeapLoop::flow(const Flow& flow, const Task& done) {
  assert(find_fault(flow, *links_).empty());
  Flow on_links = flow;
  on_links.rate_limit = unlimited;
  const double link_rate = rate_alone(on_links, *links_);
  const Running running = {
      done, events_.next_order(done.priority), link_rate, std::min(link_rate, flow.rate_limit), flow.bytes, now_};
  const FlowId id = flows_.add(running);
  schedule_end(id, running);
  return id;
}

void HeapLoop::set_rate_limit(FlowId flow, double rate_limit) {
  assert(rate_limit > 0);
  Running* running = flows_.find(flow);
  if (running == nullptr) return;
  running->bytes_left = std::max(0.0, running->bytes_left - running->rate * to_seconds(now_ - running->since));
  running->since = now_;
  running->rate = std::min(running->link_rate, rate_limit);
  ++running->changes;
  schedule_end(flow, *running);
}

void HeapLoop::schedule_end(FlowId flow, const Running& running) {
  const Task end = {this, running.changes, running.done.priority, static_cast<std::uint64_t>(flow)};
  events_.push({now_ + flow_time(running.bytes_left / running.rate), running.order, end});
}

void HeapLoop::handle(std::uint32_t changes, std::uint64_t flow) {
  Running* running = flows_.find(FlowId{flow});
  if (running == nullptr || running->changes != changes) return;
  const Task done = running->done;
  flows_.remove(FlowId{flow});
  done.handler->handle(done.code, done.argument);
}

std::uint64_t HeapLoop::run() {
  std::uint64_t events = 0;
  while (!events_.empty()) {
    const Scheduled event = events_.take_first();
    now_ = event.time;
    event.task.handler->handle(event.task.code, event.task.argument);
    ++events;
  }
  return events;
}

}  // namespace plumbline::sim
