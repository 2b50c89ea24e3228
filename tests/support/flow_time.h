// Simulates flows on SimGrid and returns how long they take.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>

#include "sim/network/simgrid_loop.h"
#include "sim/network/traffic.h"

namespace plumbline::tests {

// Records when the last of the timed flows ended, and whether one failed.
class Stopwatch final : public sim::Handler {
 public:
  enum Code : std::uint32_t { ignored, ended, broken };
  explicit Stopwatch(const sim::Loop& loop) : loop_(loop) {}
  void handle(std::uint32_t code, std::uint64_t) override {
    if (code == ended) last_ = loop_.now();
    if (code == broken) failed_ = true;
  }
  sim::Time last() const { return last_; }
  bool failed() const { return failed_; }

 private:
  const sim::Loop& loop_;
  sim::Time last_ = 0;
  bool failed_ = false;
};

// Returns the seconds until the last flow of `timed` has ended when `timed` and `background` start together. A link
// that fails under a flow of `timed` gives an infeasible error that names it.
inline model::Result<double> simulate_seconds(sim::SimGridNetwork& network, std::span<const sim::TrafficFlow> timed,
                                              std::span<const sim::TrafficFlow> background,
                                              std::span<const sim::LinkChange> changes = {}) {
  sim::SimGridLoop loop(network);
  for (const sim::LinkChange& change : changes)
    if (auto done = loop.change(change); !done) return tl::unexpected(done.error());
  Stopwatch watch(loop);
  for (const sim::TrafficFlow& flow : timed)
    loop.flow({&flow.footprint, flow.bytes, sim::unlimited, {&watch, Stopwatch::broken}}, {&watch, Stopwatch::ended});
  for (const sim::TrafficFlow& flow : background)
    loop.flow({&flow.footprint, flow.bytes}, {&watch, Stopwatch::ignored});
  loop.run();
  if (watch.failed()) {
    const sim::FlowFailure& failure = loop.failures().front();
    return tl::unexpected(model::Error{model::ErrorKind::infeasible,
                                       fmt::format("{} at {} s", failure.reason, sim::to_seconds(failure.time))});
  }
  return sim::to_seconds(watch.last());
}

}  // namespace plumbline::tests
