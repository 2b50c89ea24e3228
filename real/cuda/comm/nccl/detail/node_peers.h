// Finds the ranks of a job that share a machine and can map each other's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "real/cuda/status.h"
#include "real/executor/control_channel.h"

namespace plumbline::real::cuda {

struct NodePeers {
  std::vector<std::int32_t> node_of;  // [rank] its node, numbered by the first rank there
  std::string apart;  // why ranks of a machine cannot map each other's memory; each is then its own node
};

// Describes the resulting transports of tokens, for display.
std::string transports_of(const NodePeers& node_peers);

// Finds the nodes; every rank of the channel calls it. `machine` is the name of this rank's machine; empty: the
// system's name. It fails only if the channel does.
Status find_node_peers(ControlChannel& channel, const std::string& machine, NodePeers& node_peers);

}  // namespace plumbline::real::cuda
