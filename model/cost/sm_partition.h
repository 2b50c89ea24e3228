// How the SMs of a GPU are divided between computation and communication kernels.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/cost/conditions.h"

namespace plumbline::model {

// static: kernels are launched on the SMs that communication leaves, also while it is idle (DeepSeek-V3,
//         arXiv 2412.19437, section 3.2.2; in its published profile every product has 112 blocks). That chunks
//         without an overlapped partner are launched alike is assumed;
// none:   every kernel is launched on the whole GPU; blocks that find no SM wait for one;
// dynamic: a kernel is launched on the SMs that are free at that moment.
enum class SmPolicy : std::uint8_t { fixed, none, dynamic };

// The word of the plan key overlap.sm_policy; an unknown one reads as `fixed` (the plan's reader refuses it).
SmPolicy sm_policy(std::string_view word);

struct SmPartition {
  SmPolicy policy = SmPolicy::fixed;
  std::int64_t device_sms = 0;
  std::int64_t communication_sms = 0;  // blocks of a communication kernel, one per SM
  std::int64_t collective_sms = 0;     // of a dense collective; 0: others move the bytes, and nothing slows down

  // SMs on which a persistent kernel is launched.
  std::int64_t launch_width(Neighbour neighbour) const;
  // Conditions of a compute kernel beside that neighbour, for the expected rows.
  Conditions beside(Neighbour neighbour) const;
};

}  // namespace plumbline::model
