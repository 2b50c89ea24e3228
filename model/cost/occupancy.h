// Room on streaming multiprocessors: what a resident block leaves to others, and how often a grid that
// does not fit at once has to go round.
#pragma once

#include <cstdint>

namespace plumbline::model {

struct SmResources {  // of one SM (CUDA C++ Programming Guide, technical specifications per compute capability)
  double threads = 0, registers = 0, shared_memory = 0;  // shared memory in bytes
  bool operator==(const SmResources&) const = default;
};

struct Block {                                           // of a kernel; 0 where unknown
  double threads = 0, registers = 0, shared_memory = 0;  // registers per thread
};

// The share of an SM that is left beside a resident block: of threads, registers and shared memory the
// scarcest decides. Between 0 and 1.
double free_share(const SmResources& sm, const Block& resident);

// Blocks of a kernel that an empty SM takes at once.
std::int64_t blocks_per_sm(const SmResources& sm, const Block& block);

// SMs and what a neighbour leaves of them.
struct SmOccupancy {
  std::int64_t free = 0;  // SMs without a neighbour
  std::int64_t held = 0;  // SMs with one
  double room = 0;        // share of each of the latter that is left
  // For kernels of many small blocks, of which an empty SM takes per_sm: whole SMs' worth of room.
  double effective(std::int64_t per_sm) const;
};

// A grid of `blocks`, of which an empty SM takes per_sm at once, in units of the time that one full round
// takes. Blocks that find no seat go round again. In a last round that is not full an SM runs fewer blocks
// at once: each of them takes between per_sm-th of the round (throughput-bound) and the whole round
// (latency-bound); latency_share says where between.
double rounds(std::int64_t blocks, std::int64_t per_sm, const SmOccupancy& occupancy, double latency_share);

}  // namespace plumbline::model
