// The placement of ranks on GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::topologies {

// A bijection between ranks and GPUs 0 to n - 1.
class Placement {
 public:
  // Makes a placement by a rule:
  //   contiguous   rank r on GPU r
  //   striped      consecutive ranks on consecutive nodes, round by round
  //   random:SEED  whole nodes in random order, as a scheduler assigns them; the same seed gives the same order
  //   file:PATH    the GPU of rank r on line r + 1; blank lines and lines that begin with # do not count
  // Errors are input errors: of the rule with key cluster.placement, of a file with its line.
  static model::Result<Placement> make(std::string_view rule, std::int64_t gpus, std::int64_t gpus_per_node);

  std::int64_t ranks() const { return static_cast<std::int64_t>(gpus_.size()); }
  std::int64_t gpu(std::int64_t rank) const { return gpus_[static_cast<std::size_t>(rank)]; }
  std::int64_t rank(std::int64_t gpu) const { return ranks_[static_cast<std::size_t>(gpu)]; }

 private:
  explicit Placement(std::vector<std::int64_t> gpu_of_rank);

  std::vector<std::int64_t> gpus_;   // by rank
  std::vector<std::int64_t> ranks_;  // by GPU
};

// Makes the placement of the plan's cluster.placement (default: contiguous). Paths are relative to the plan's folder.
model::Result<Placement> placement_of(const model::Plan& plan, std::int64_t gpus_per_node);

}  // namespace plumbline::topologies
