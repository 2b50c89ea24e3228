#include "sim/network/exchange_table.h"

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

model::Result<double> ExchangeTable::seconds(const ExchangeKey& key) {
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  model::Result<double> seconds = compute(key);
  if (seconds) known_.emplace(key, *seconds);
  return seconds;
}

model::Result<double> ExchangeTable::compute(const ExchangeKey& key) const {
  const auto transfers = transfers_of(fabric_, key.exchange);
  if (!transfers) return tl::unexpected(transfers.error());
  if (key.beside.empty() && uniform(*transfers)) return bottleneck_seconds(fabric_, *transfers);
  if (network_ == nullptr) {
    return tl::unexpected(Error{ErrorKind::infeasible, "an exchange that is not uniform, or not alone, needs a network",
                                "", 0, "", "make the table with a SimGridNetwork"});
  }
  std::vector<TrafficFlow> beside;
  for (const Exchange& exchange : key.beside) {
    const auto others = transfers_of(fabric_, exchange);
    if (!others) return tl::unexpected(others.error());
    for (TrafficFlow& flow : footprint_flows(fabric_, *others)) beside.push_back(std::move(flow));
  }
  return simulate_seconds(*network_, footprint_flows(fabric_, *transfers), beside);
}

}  // namespace plumbline::sim
