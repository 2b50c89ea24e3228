#include "sim/engine/heap_loop.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "sim/engine/flows.h"

namespace plumbline::sim {
namespace {

constexpr double equal_rates = 1e-12;  // a share that is smaller by less is rounding

std::uint64_t mask_of(const Footprint* footprint) {
  std::uint64_t mask = 0;
  if (footprint != nullptr)
    for (const Crossing& crossing : *footprint) mask |= std::uint64_t{1} << (crossing.link % 64);
  return mask;
}

}  // namespace

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
  const double alone = std::min(link_rate, flow.rate_limit);
  const Running running = {.done = done,
                           .order = events_.next_order(done.priority),
                           .footprint = flow.footprint,
                           .owner = flow.footprint == nullptr ? 0 : flow.owner,
                           .mask = mask_of(flow.footprint),
                           .link_rate = link_rate,
                           .alone = alone,
                           .rate = alone,
                           .bytes_left = flow.bytes,
                           .since = now_};
  const FlowId id = flows_.add(running);
  schedule_end(id, running);
  if (running.owner == 0) return id;
  flows_of(running.owner).push_back(id);
  share(running.owner);
  return id;
}

void HeapLoop::set_rate_limit(FlowId flow, double rate_limit) {
  assert(rate_limit > 0);
  Running* running = flows_.find(flow);
  if (running == nullptr) return;
  running->alone = std::min(running->link_rate, rate_limit);
  if (running->owner == 0 || flows_of(running->owner).size() == 1) return set_rate(flow, *running, running->alone);
  share(running->owner);
}

void HeapLoop::set_rate(FlowId flow, Running& running, double rate) {
  running.bytes_left = std::max(0.0, running.bytes_left - running.rate * to_seconds(now_ - running.since));
  running.since = now_;
  running.rate = rate;
  ++running.changes;
  schedule_end(flow, running);
}

std::vector<FlowId>& HeapLoop::flows_of(std::uint32_t owner) {
  if (of_owner_.size() <= owner) of_owner_.resize(owner + std::size_t{1});
  return of_owner_[owner];
}

// Two flows without a link in common have no bit of their masks in common.
bool HeapLoop::may_share(const std::vector<FlowId>& flows) {
  std::uint64_t seen = 0;
  for (const FlowId id : flows) {
    const std::uint64_t mask = flows_.find(id)->mask;
    if ((seen & mask) != 0) return true;
    seen |= mask;
  }
  return false;
}

// Raises the rates of all flows together. Those stop that have reached their rate alone, or that cross a link whose
// bandwidth is used up.
void HeapLoop::share(std::uint32_t owner) {
  if (owner == 0) return;
  if (!may_share(flows_of(owner))) {
    for (const FlowId id : flows_of(owner))
      if (Running& running = *flows_.find(id); running.rate != running.alone) set_rate(id, running, running.alone);
    return;
  }
  struct Sharer {
    FlowId id;
    Running* running;
    double rate = -1;  // -1: still rises
  };
  std::vector<Sharer> sharers;
  for (const FlowId id : flows_of(owner)) sharers.push_back({id, flows_.find(id)});
  struct LinkLoad {
    double fixed = 0, rising = 0;  // B/s of the flows that have stopped; crossings of the others
  };
  std::map<LinkId, LinkLoad> loads;
  for (const Sharer& sharer : sharers)
    for (const Crossing& crossing : *sharer.running->footprint) loads[crossing.link].rising += crossing.times;
  const auto rate_on = [&](const Crossing& crossing) {
    const LinkLoad& load = loads[crossing.link];
    return ((*links_)[crossing.link].bandwidth - load.fixed) / load.rising;
  };
  for (std::size_t left = sharers.size(); left > 0; --left) {
    Sharer* slowest = nullptr;
    double rate = 0;
    for (Sharer& sharer : sharers) {
      if (sharer.rate >= 0) continue;
      double own = sharer.running->alone;
      for (const Crossing& crossing : *sharer.running->footprint) {
        const double shared = rate_on(crossing);
        if (shared < own * (1 - equal_rates)) own = shared;
      }
      if (slowest == nullptr || own < rate) {
        slowest = &sharer;
        rate = own;
      }
    }
    slowest->rate = rate;
    for (const Crossing& crossing : *slowest->running->footprint) {
      loads[crossing.link].fixed += rate * crossing.times;
      loads[crossing.link].rising -= crossing.times;
    }
  }
  for (const Sharer& sharer : sharers)
    if (sharer.rate != sharer.running->rate) set_rate(sharer.id, *sharer.running, sharer.rate);
}

void HeapLoop::schedule_end(FlowId flow, const Running& running) {
  const Task end = {this, running.changes, running.done.priority, static_cast<std::uint64_t>(flow)};
  events_.push({now_ + flow_time(running.bytes_left / running.rate), running.order, end});
}

void HeapLoop::handle(std::uint32_t changes, std::uint64_t flow) {
  Running* running = flows_.find(FlowId{flow});
  if (running == nullptr || running->changes != changes) return;
  const Task done = running->done;
  const std::uint32_t owner = running->owner;
  flows_.remove(FlowId{flow});
  if (owner > 0) {
    std::erase(flows_of(owner), FlowId{flow});
    share(owner);
  }
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
