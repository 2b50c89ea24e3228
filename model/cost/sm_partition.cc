#include "model/cost/sm_partition.h"

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

Conditions SmPartition::beside(Neighbour neighbour) const {
  return {.sms = launch_width(neighbour),
          .held = neighbour == Neighbour::none ? 0 : communication_sms,
          .neighbour = neighbour};
}

}  // namespace plumbline::model
