#include "model/cost/sm_partition.h"

#include <algorithm>

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

}  // namespace plumbline::model
