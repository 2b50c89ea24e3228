// Times of exchanges, each computed once: what loops without a network, and searches, look up.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "sim/network/exchange_pattern.h"
#include "sim/network/simgrid_loop.h"

namespace plumbline::sim {

// An exchange and the traffic that starts together with it. The groups' GPUs and amounts are part of the key, so
// placement and bytes are.
struct ExchangeKey {
  Exchange exchange;
  std::vector<Exchange> beside;

  std::partial_ordering operator<=>(const ExchangeKey&) const = default;
};

// Seconds until the last flow of `timed` has ended when `timed` and `beside` start together. A link that fails under a
// flow of `timed` is an infeasible error that names it.
model::Result<double> simulate_seconds(SimGridNetwork& network, std::span<const TrafficFlow> timed,
                                       std::span<const TrafficFlow> beside, std::span<const LinkChange> changes = {});

class ExchangeTable {
 public:
  // Fabric and network outlive the table; the network holds the fabric's links. Without a network only what the closed
  // form covers can be asked.
  explicit ExchangeTable(const topologies::Fabric& fabric, SimGridNetwork* network = nullptr)
      : fabric_(fabric), network_(network) {}

  // The closed form when the exchange is uniform and alone, else SimGrid: footprints where hops are uniform, flow by
  // flow where not. The same key gives the same value, to the last bit. Errors: of transfers_of(); infeasible when a
  // network is needed and there is none.
  model::Result<double> seconds(const ExchangeKey& key);

  std::size_t size() const { return known_.size(); }

 private:
  model::Result<double> compute(const ExchangeKey& key) const;

  const topologies::Fabric& fabric_;
  SimGridNetwork* network_;
  std::map<ExchangeKey, double> known_;
};

}  // namespace plumbline::sim
