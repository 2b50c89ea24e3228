#include "model/cost/sm_partition.h"

#include <algorithm>

namespace plumbline::model {

SmPolicy sm_policy(std::string_view word) {
  if (word == "none") return SmPolicy::none;
  if (word == "dynamic") return SmPolicy::dynamic;
  return SmPolicy::fixed;
}

std::int64_t SmPartition::launch_width(Neighbour neighbour) const {
  const std::int64_t rest = device_sms - communication_sms;
  switch (policy) {
    case SmPolicy::fixed:
      return rest;
    case SmPolicy::dynamic:
      return neighbour == Neighbour::none ? device_sms : rest;
    default:
      return device_sms;
  }
}

// Dense collectives last for many kernels, and their blocks stay where they are: whatever the policy, products are
// launched on the SMs that they leave.
Conditions SmPartition::beside(Neighbour neighbour) const {
  if (neighbour == Neighbour::collective) {
    if (collective_sms == 0) return beside(Neighbour::none);
    return {.sms = std::min(launch_width(Neighbour::none), device_sms - collective_sms),
            .held = collective_sms,
            .neighbour = neighbour};
  }
  return {.sms = launch_width(neighbour),
          .held = neighbour == Neighbour::none ? 0 : communication_sms,
          .neighbour = neighbour};
}

}  // namespace plumbline::model
