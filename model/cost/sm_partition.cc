#include "model/cost/sm_partition.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumbline::model {

SmPolicy sm_policy(std::string_view word) {
  if (word == "none") return SmPolicy::none;
  if (word == "dynamic") return SmPolicy::dynamic;
  return SmPolicy::fixed;
}

std::int64_t SmPartition::launch_width(CoRunner co_runner) const {
  const std::int64_t rest = device_sms - communication_sms;
  switch (policy) {
    case SmPolicy::fixed:
      return rest;
    case SmPolicy::dynamic:
      return co_runner == CoRunner::none ? device_sms : rest;
    default:
      return device_sms;
  }
}

// Dense collectives last for many kernels, and their blocks stay on their SMs. So under every policy GEMMs are launched
// on the SMs that they leave.
Conditions SmPartition::overlapped(CoRunner co_runner) const {
  if (co_runner == CoRunner::collective) {
    if (collective_sms == 0) return overlapped(CoRunner::none);
    return {.sms = std::min(launch_width(CoRunner::none), device_sms - collective_sms),
            .held = collective_sms,
            .co_runner = co_runner,
            .bandwidth = collective_bandwidth};
  }
  return {.sms = launch_width(co_runner),
          .held = co_runner == CoRunner::none ? 0 : communication_sms,
          .co_runner = co_runner};
}

double free_share(const SmResources& sm, const Block& resident) {
  const double threads = resident.threads / sm.threads;
  const double registers = resident.threads * resident.registers / sm.registers;
  const double shared_memory = resident.shared_memory / sm.shared_memory;
  return std::clamp(1 - std::max({threads, registers, shared_memory}), 0.0, 1.0);
}

std::int64_t blocks_per_sm(const SmResources& sm, const Block& block) {
  const double share = 1 - free_share(sm, block);
  return share > 0 ? static_cast<std::int64_t>(std::floor(1 / share)) : 1;
}

double SmOccupancy::effective(std::int64_t per_sm) const {
  const auto blocks = static_cast<double>(per_sm);
  return static_cast<double>(free) + static_cast<double>(held) * std::floor(share * blocks) / blocks;
}

double rounds(std::int64_t blocks, std::int64_t per_sm, const SmOccupancy& occupancy, double latency_share) {
  const auto per_shared_sm = static_cast<std::int64_t>(std::floor(occupancy.share * static_cast<double>(per_sm)));
  const std::int64_t at_once = occupancy.free * per_sm + occupancy.held * per_shared_sm;
  if (at_once <= 0) return std::numeric_limits<double>::infinity();
  if (blocks <= at_once) return 1;
  const std::int64_t full = blocks / at_once;
  const std::int64_t rest = blocks % at_once;
  if (rest == 0) return static_cast<double>(full);
  const std::int64_t sms = occupancy.free + (per_shared_sm > 0 ? occupancy.held : 0);
  const std::int64_t fullest = std::min(per_sm, (rest + sms - 1) / sms);
  const double throughput = static_cast<double>(fullest) / static_cast<double>(per_sm);
  return static_cast<double>(full) + latency_share + (1 - latency_share) * throughput;
}

}  // namespace plumbline::model
