// Remembers the links of steps on one fabric, so that plans that differ in other things walk its routes once. A value
// that its owner hands to each evaluation; safe to use from several threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "model/program/routing.h"
#include "sim/network/step_links.h"

namespace plumbline::sim {

struct Inputs;

class LinksMemo {
 public:
  // StepLinks::make, once for all plans whose ranks lie alike. All inputs have the same fabric.
  model::Result<std::shared_ptr<const StepLinks>> links(const Inputs& inputs, const model::RoutingSpread& spread);

 private:
  // GPUs, pipeline, ranks and stride of an exchange, groups and ranks per token, placement.
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, double, double, std::string>;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const StepLinks>> known_;
};

// Of the inputs' plan: remembered where the inputs have a memo, no contention and no wish for every link.
model::Result<std::shared_ptr<const StepLinks>> links_of(const Inputs& inputs, const model::RoutingSpread& spread);

}  // namespace plumbline::sim
