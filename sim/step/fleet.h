// What differs between the GPUs of a cluster in one step. GPUs are numbered as Megatron numbers ranks, the pipeline
// outermost: GPU g is replica g % replicas of pipeline rank g / replicas.
#pragma once

#include <cstdint>
#include <vector>

#include "model/plan/layout.h"

namespace plumbline::sim {

// Work that differs between micro-batches and GPUs. Micro-batches of one replica count from 0 over both directions,
// direction 1 after direction 0. Safe to use from several threads.
class UnevenWork {
 public:
  virtual ~UnevenWork() = default;
  // Returns the expert rows that a replica computes in a layer of the model, over the expected ones.
  virtual double expert_rows(std::int64_t replica, std::int32_t layer, std::int32_t micro_batch) const = 0;
  // Returns the seconds of attention of a micro-batch over the expected ones, those of the plan's documents.
  virtual double attention(std::int64_t replica, std::int32_t micro_batch) const = 0;
};

// Collectives within layers and of parameters wait for the replicas that their operators name (CollectiveAttributes).
struct Fleet {
  std::int64_t replicas = 1;         // GPUs of a pipeline rank
  model::RankGroup exchange;         // replicas between which dispatch and combine move tokens, and wait for each other
  std::vector<double> slowness;      // [gpu] factor on its compute times; empty: all 1
  double jitter = 0;                 // standard deviation of the logarithm of one kernel's time, whose mean stays
  std::uint64_t seed = 0;            // of the jitter
  const UnevenWork* work = nullptr;  // nullptr: even
  // Every slot runs segment by segment from its GPU's own start. Else slots that no data-parallel collective overlaps
  // are evaluated at once for all GPUs that wait for each other in them, and others start with the last of these GPUs.
  bool by_kernels = false;
};

}  // namespace plumbline::sim
