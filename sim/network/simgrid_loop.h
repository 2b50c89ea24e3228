// The event loop on which transfers share links. Flows that meet others are SimGrid communications; timers and the ends
// of flows that are alone on their links use the total order of events of EventHeap. SimGrid's headers stay in the .cc
// file.
//
// SimGrid keeps its engine, its clock and its settings per process. SimGridNetwork is that engine with the links of one
// cluster. Only one may be alive at a time, and it must be used from the thread that made it. It serves any number of
// evaluations one after another; each is a SimGridLoop whose time starts at 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "sim/engine/loop.h"

namespace plumbline::sim {

class SimGridLoop;

// Runs `work`, which makes a network of so many links and uses it, on a thread with as large a stack as SimGrid's
// solver needs, which recurses over links that share flows; throws what `work` throws. The first thread's stack would
// need a limit that others set. Errors (infeasible): too many links, or the system starts no such thread.
model::Result<void> on_own_stack(std::size_t links, const std::function<void()>& work);

class SimGridNetwork {
 public:
  // Makes the engine; `links` must outlive the network. `limited_flows` is how many flows with a rate limit may run at
  // the same time. Errors (infeasible): another network is alive, or the thread's stack is too small for so many links
  // (on_own_stack()). Errors (input): a link without bandwidth.
  static model::Result<SimGridNetwork> make(const std::vector<topologies::Link>& links,
                                            std::size_t limited_flows = 1024);
  SimGridNetwork(SimGridNetwork&&) noexcept;
  SimGridNetwork& operator=(SimGridNetwork&&) noexcept;
  ~SimGridNetwork();

 private:
  friend class SimGridLoop;
  class Impl;
  explicit SimGridNetwork(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A change of a link: from `time` on it has `factor` of its bandwidth. 1 is all of it, 0 is failed.
struct LinkChange {
  double time = 0;  // s, from the start of the loop
  LinkId link = 0;
  double factor = 1;
};

// A flow that did not run to its end.
struct FlowFailure {
  FlowId flow{};
  Time time = 0;
  std::string reason;  // "link node3.gpu5.nic.up failed"
};

// Flows share links max-min fairly, each in proportion to the times it crosses the link. Ends are rounded up to whole
// picoseconds, so that a single flow ends at the same time as in HeapLoop. Below about a thousand concurrent flows the
// cost per flow is constant; above, SimGrid 3.32 scans all of them at each end.
class SimGridLoop final : public Loop {
 public:
  // The network must outlive the loop and may have one loop at a time.
  explicit SimGridLoop(SimGridNetwork& network);
  SimGridLoop(const SimGridLoop&) = delete;
  SimGridLoop& operator=(const SimGridLoop&) = delete;
  ~SimGridLoop() override;  // cancels running flows and restores all links

  Time now() const override;
  void at(Time time, const Task& task) override;
  // A flow that SimGrid cannot run (unknown link, NaN, more than 1e13 bytes, too many limited flows) fails at once.
  FlowId flow(const Flow& flow, const Task& done) override;
  void set_rate_limit(FlowId flow, double rate_limit) override;

  // Errors (input): an unknown link, a time before now, a factor that is neither 0 nor 1e-6 to 1.
  model::Result<void> change(const LinkChange& change);

  std::uint64_t run() override;

  const std::vector<FlowFailure>& failures() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumbline::sim
