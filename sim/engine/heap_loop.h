// The project's own event loop. The flows of one GPU share the links that they cross, max-min fairly in proportion to
// how often they cross them, as on the SimGrid loop. Flows of different GPUs run as if they were alone.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/event_heap.h"
#include "sim/engine/flows.h"
#include "sim/engine/loop.h"

namespace plumbline::sim {

class HeapLoop final : public Loop, private Handler {
 public:
  HeapLoop() = default;
  // Flows cross these links, which must outlive the loop.
  explicit HeapLoop(const std::vector<topologies::Link>& links) : links_(&links) {}

  Time now() const override { return now_; }
  void at(Time time, const Task& task) override;
  // Alone, the flow takes max(bytes * times / bandwidth) over its crossings, or bytes / rate_limit where that is
  // longer.
  FlowId flow(const Flow& flow, const Task& done) override;
  void set_rate_limit(FlowId flow, double rate_limit) override;

  std::uint64_t run() override;

 private:
  struct Running {
    Task done;
    std::uint64_t order = 0;
    const Footprint* footprint = nullptr;
    std::uint32_t owner = 0;
    std::uint64_t mask = 0;     // of the footprint's links, by link mod 64
    double link_rate = 0;       // B/s that the links allow
    double alone = 0;           // B/s on links of its own
    double rate = 0;            // B/s now
    double bytes_left = 0;      // at `since`
    Time since = 0;             // of the last change of rate
    std::uint32_t changes = 0;  // end events scheduled before the last change are void
  };
  void handle(std::uint32_t changes, std::uint64_t flow) override;  // the end of a flow
  void schedule_end(FlowId flow, const Running& running);
  void set_rate(FlowId flow, Running& running, double rate);
  std::vector<FlowId>& flows_of(std::uint32_t owner);
  bool may_share(const std::vector<FlowId>& flows);
  void share(std::uint32_t owner);

  static const std::vector<topologies::Link> no_links;
  const std::vector<topologies::Link>* links_ = &no_links;
  EventHeap events_;
  FlowSlots<Running> flows_;
  std::vector<std::vector<FlowId>> of_owner_;  // [owner] running flows
  Time now_ = 0;
};

}  // namespace plumbline::sim
