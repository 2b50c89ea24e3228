#include "model/cost/occupancy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumbline::model {

double room_beside(const SmResources& sm, const Block& resident) {
  const double threads = resident.threads / sm.threads;
  const double registers = resident.threads * resident.registers / sm.registers;
  const double shared_memory = resident.shared_memory / sm.shared_memory;
  return std::clamp(1 - std::max({threads, registers, shared_memory}), 0.0, 1.0);
}

std::int64_t blocks_per_sm(const SmResources& sm, const Block& block) {
  const double share = 1 - room_beside(sm, block);
  return share > 0 ? static_cast<std::int64_t>(std::floor(1 / share)) : 1;
}

double Seats::effective(std::int64_t per_sm) const {
  const auto blocks = static_cast<double>(per_sm);
  return static_cast<double>(free) + static_cast<double>(held) * std::floor(room * blocks) / blocks;
}

double rounds(std::int64_t blocks, std::int64_t per_sm, const Seats& seats, double latency_share) {
  const auto beside = static_cast<std::int64_t>(std::floor(seats.room * static_cast<double>(per_sm)));
  const std::int64_t at_once = seats.free * per_sm + seats.held * beside;
  if (at_once <= 0) return std::numeric_limits<double>::infinity();
  if (blocks <= at_once) return 1;
  const std::int64_t full = blocks / at_once;
  const std::int64_t rest = blocks % at_once;
  if (rest == 0) return static_cast<double>(full);
  const std::int64_t sms = seats.free + (beside > 0 ? seats.held : 0);
  const std::int64_t fullest = std::min(per_sm, (rest + sms - 1) / sms);
  const double throughput = static_cast<double>(fullest) / static_cast<double>(per_sm);
  return static_cast<double>(full) + latency_share + (1 - latency_share) * throughput;
}

}  // namespace plumbline::model
