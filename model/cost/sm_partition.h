// SmPartition divides a GPU's SMs between computation and communication kernels and gives the conditions of a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plumbline::model {

// The kernel whose blocks run on the same SMs: none, a communication kernel that waits for other ranks or moves data, a
// dense collective, or (for kernels of the communication stream) a GEMM.
enum class CoRunner : std::uint8_t { none, waiting, transferring, collective, computing };
inline constexpr std::size_t communication_states = 4;  // all but computing

struct Conditions {
  std::int64_t sms = 0;   // streaming multiprocessors that persistent kernels are launched on
  std::int64_t held = 0;  // SMs of the co-runner
  CoRunner co_runner = CoRunner::none;
  double row_scale = 1;  // this rank's expert rows over the expected ones (load imbalance)
  double clock = 1;      // over the clock that the profile's rates belong to; slows what the SMs bound
  double bandwidth = 1;  // share of the memory bandwidth that the co-runner leaves
};

// static: kernels are launched on the SMs that communication leaves, also while it is idle (DeepSeek-V3,
//         arXiv 2412.19437, section 3.2.2; in its published profile every GEMM has 112 blocks). Chunks without an
//         overlapped partner are assumed to be launched alike;
// none:   every kernel is launched on the whole GPU; blocks that find no free SM wait for one;
// dynamic: a kernel is launched on the SMs that are free at that moment.
enum class SmPolicy : std::uint8_t { fixed, none, dynamic };

// Returns the policy of a value of the plan key overlap.sm_policy; an unknown one gives `fixed` (load_plan rejects it).
SmPolicy sm_policy(std::string_view word);

struct SmPartition {
  SmPolicy policy = SmPolicy::fixed;
  std::int64_t device_sms = 0;
  std::int64_t communication_sms = 0;  // blocks of a communication kernel, one per SM
  std::int64_t collective_sms = 0;     // SMs of a dense collective; 0: it uses none and slows no kernel down
  double collective_bandwidth = 1;     // share of the memory bandwidth that it leaves

  // SMs on which a persistent kernel is launched.
  std::int64_t launch_width(CoRunner co_runner) const;
  // Returns the conditions of a compute kernel with that co-runner, for the expected rows.
  Conditions overlapped(CoRunner co_runner) const;
};

}  // namespace plumbline::model
