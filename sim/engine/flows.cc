#include "sim/engine/flows.h"

#include <fmt/format.h>

#include <algorithm>

namespace plumbline::sim {
namespace {

// SimGrid counts a flow in 64 bits of 2^-20 B, which is 1.7e13 B.
constexpr double most_bytes = 1e13;
// 64 bits of picoseconds are 9.2e6 s.
constexpr double most_seconds = 1e6;

}  // namespace

double rate_alone(const Flow& flow, const std::vector<topologies::Link>& links) {
  double rate = flow.rate_limit;
  if (flow.footprint == nullptr) return rate;
  for (const Crossing& crossing : *flow.footprint)
    rate = std::min(rate, links[crossing.link].bandwidth / crossing.times);
  return rate;
}

std::string find_fault(const Flow& flow, const std::vector<topologies::Link>& links) {
  if (!(flow.bytes >= 0 && flow.bytes <= most_bytes)) return fmt::format("a flow of {} bytes", flow.bytes);
  if (!(flow.rate_limit > 0)) return fmt::format("a flow limited to {} B/s", flow.rate_limit);
  const Footprint none;
  for (const Crossing& crossing : flow.footprint == nullptr ? none : *flow.footprint) {
    if (crossing.link >= links.size()) return fmt::format("there is no link {}", crossing.link);
    if (crossing.times == 0) return fmt::format("link {} is crossed 0 times", links[crossing.link].name);
  }
  const double seconds = flow.bytes / rate_alone(flow, links);
  if (seconds > most_seconds) return fmt::format("a flow of {} s", seconds);
  return "";
}

}  // namespace plumbline::sim
