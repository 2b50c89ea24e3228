// Occupancy of streaming multiprocessors: what a resident block leaves to others, and the number of rounds of a grid
// whose blocks do not all fit at once.
#pragma once

#include <cstdint>

namespace plumbline::model {

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
