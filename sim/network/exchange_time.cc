#include "sim/network/exchange_time.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

namespace plumbline::sim {
namespace {

using model::Error;
using model::ErrorKind;

// Notes when the last of the timed flows ended, and whether one failed.
class Stopwatch final : public Handler {
 public:
  enum Code : std::uint32_t { ignored, ended, broken };
  explicit Stopwatch(const Loop& loop) : loop_(loop) {}
  void handle(std::uint32_t code, std::uint64_t) override {
    if (code == ended) last_ = loop_.now();
    if (code == broken) failed_ = true;
  }
  Time last() const { return last_; }
  bool failed() const { return failed_; }

 private:
  const Loop& loop_;
  Time last_ = 0;
  bool failed_ = false;
};

}  // namespace

model::Result<double> simulate_seconds(SimGridNetwork& network, std::span<const TrafficFlow> timed,
                                       std::span<const TrafficFlow> beside, std::span<const LinkChange> changes) {
  SimGridLoop loop(network);
  for (const LinkChange& change : changes) {
    if (auto done = loop.change(change); !done) return tl::unexpected(done.error());
  }
  Stopwatch watch(loop);
  for (const TrafficFlow& flow : timed) {
    loop.flow({&flow.footprint, flow.bytes, unlimited, {&watch, Stopwatch::broken}}, {&watch, Stopwatch::ended});
  }
  for (const TrafficFlow& flow : beside) {
    loop.flow({&flow.footprint, flow.bytes}, {&watch, Stopwatch::ignored});
  }
  loop.run();
  if (watch.failed()) {
    const FlowFailure& failure = loop.failures().front();
    return tl::unexpected(
        Error{ErrorKind::infeasible, fmt::format("{} at {} s", failure.reason, to_seconds(failure.time))});
  }
  return to_seconds(watch.last());
}

}  // namespace plumbline::sim
