// Which ranks of a job stand on one machine and see each other's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "real/cuda/status.h"
#include "real/executor/control_channel.h"

namespace plumbline::real::cuda {

struct NodePeers {
  std::vector<std::int32_t> node_of;  // [rank] its node's number: the first rank there
  std::string apart;  // why ranks of a machine do not see each other's memory: each is its own node then
};

// By which ways tokens go then, for people.
std::string transports_of(const NodePeers& node_peers);

// Every rank of the channel calls it. `machine`: the name of this rank's; empty: as the system tells it. Fails only
// where the channel does.
Status find_node_peers(ControlChannel& channel, const std::string& machine, NodePeers& node_peers);

}  // namespace plumbline::real::cuda
