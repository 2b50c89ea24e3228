// The placement of ranks on GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "topologies/fabric_shape.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

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

// Returns the nodes as the plan's ranks use them: where it states no placement and has more GPUs than a node, only the
// largest number of GPUs that holds whole tensor and expert groups and can be wired, with their NICs. An expert group
// of 64 then lies in one rack of 72, whose other eight GPUs are idle. An expert group that is larger than a node is
// divided into equal parts where that leaves no more than an eighth of a node idle. cluster.domain_gpus states another
// number, which check_domain() must have let pass.
FabricShape used_nodes(const FabricShape& shape, const model::Plan& plan);

// Refuses a cluster.domain_gpus that a node does not have, that would part a NIC or that leaves a wiring with a fault
// (find_fault()), whatever the plan's number of GPUs, because searches change it; and one that would rename links that
// have factors.
model::Result<void> check_domain(const FabricShape& shape, const model::Plan& plan);

// Returns how many GPUs of one node the ranks of an expert group have between them, in the group that is cut up most:
// all of a node where groups lie inside, else the largest divisor of the group that each part of it holds.
std::int64_t expert_node_gpus(const FabricShape& shape, const model::Plan& plan);

// Returns sentences about GPUs that are idle for that reason, and about tensor and expert groups that cross nodes
// although one could hold them.
std::vector<std::string> placement_warnings(const FabricShape& shape, const model::Plan& plan);

// Makes the placement of the plan's cluster.placement (default: contiguous). Paths are relative to the plan's folder.
model::Result<Placement> placement_of(const model::Plan& plan, std::int64_t gpus_per_node);

}  // namespace plumbline::topologies
