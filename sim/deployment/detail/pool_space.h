// The pools that a search of deployments chooses from: degrees of an instance, and how instances share the GPUs.
#pragma once

#include <cstdint>
#include <vector>

#include "model/plan/instance.h"
#include "model/plan/plan.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// Returns every instance of at most so many GPUs:
//   tensor             search.tensor, else powers of two up to the NVLink domain
//   pipeline           search.pipeline, else powers of two up to 16 and to the layers
//   attention_data     of models with experts: 1, 3, 5 or 9 times a power of two, so that the ranks of a stage divide a
//                      host, or are whole hosts of an NVLink domain that they divide or that is the whole cluster, or
//                      are whole domains
//   expert             search.expert, else all ranks of a stage or, with experts divided over 2, 4 or 8 ranks each, a
//                      part of them; at most twice as many as there are experts
//   redundant_experts  as few as give each rank equally many experts
//   two_micro_batches  off, and where experts lie on several ranks also on
// Left out are those that model::make_instance refuses. A key of [inference] that an option of the command line sets
// has that value alone. Smaller instances come first.
std::vector<model::Instance> pool_instances(const Inputs& inputs, std::int64_t gpus);

// Returns the tokens of a step with prompts to try: the one that is asked for, else the plan's and powers of two from
// 2,048 to 16,384.
std::vector<std::int64_t> chunk_sizes(const model::Plan& plan);

// Returns whether to try one pool for both phases (false), one for each (true), or both.
std::vector<bool> disaggregations(const model::Plan& plan);

// Instances of two pools that share the GPUs.
struct PoolSplit {
  std::int64_t prefill_instances = 0, decode_instances = 0;
};
// Returns, by growing number of instances that decode, splits in which as many others prefill as the GPUs allow, one at
// least. The GPUs of a pool that an option of the command line sets are kept.
std::vector<PoolSplit> pool_splits(const model::Plan& plan, const model::Instance& prefill,
                                   const model::Instance& decode);

// Make the plan one of a pool for both phases, or of two pools.
void use_one_pool(model::Plan& plan, const model::Instance& shape);
void use_two_pools(model::Plan& plan, const model::Instance& prefill, const model::Instance& decode,
                   const PoolSplit& split);

}  // namespace plumbline::sim
