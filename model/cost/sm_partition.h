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

// Occupancy of streaming multiprocessors: what a resident block leaves to others, and the number of rounds of a grid
// whose blocks do not all fit at once.

// The resources of one SM (CUDA C++ Programming Guide, technical specifications per compute capability).
struct SmResources {
  double threads = 0, registers = 0, shared_memory = 0;  // shared memory in bytes
  bool operator==(const SmResources&) const = default;
};

struct Block {                                           // resources of a block; 0 where unknown
  double threads = 0, registers = 0, shared_memory = 0;  // registers per thread
};

// Returns the share of an SM, from 0 to 1, that a resident block leaves free. The scarcest of threads, registers and
// shared memory decides.
double free_share(const SmResources& sm, const Block& resident);

// Returns the number of blocks of a kernel that fit on an empty SM at once.
std::int64_t blocks_per_sm(const SmResources& sm, const Block& block);

// SMs without and with a co-runner.
struct SmOccupancy {
  std::int64_t free = 0;  // SMs without a co-runner
  std::int64_t held = 0;  // SMs with a co-runner
  double share = 0;       // share of each of the latter that is free
  // Returns the number of whole SMs' worth of capacity for kernels of small blocks, of which an empty SM runs per_sm.
  double effective(std::int64_t per_sm) const;
};

// Returns the time of a grid of `blocks`, of which an empty SM runs per_sm at once, in units of one full round. Blocks
// that do not fit wait for the next round. In a last round that is not full an SM runs fewer blocks at once. Each then
// takes between its share of the round (throughput-bound) and the whole round (latency-bound); latency_share
// interpolates from 0 to 1 between the two.
double rounds(std::int64_t blocks, std::int64_t per_sm, const SmOccupancy& occupancy, double latency_share);

}  // namespace plumbline::model
