// The control channel as a star of TCP connections. Every rank has a thread that receives, so that the end of one rank
// reaches all others even while they wait for a device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "real/bootstrap/bootstrap.h"
#include "real/bootstrap/detail/socket.h"
#include "real/executor/control_channel.h"

namespace plumbline::real {

// The sockets of rank 0 to all other ranks, in their order; of another rank the one to rank 0.
using Sockets = std::vector<std::unique_ptr<Socket>>;

// The ranks behind the sockets have proved that they belong to the job.
std::unique_ptr<ControlChannel> make_tcp_channel(std::int32_t rank, std::int32_t ranks, const ChannelOptions& options,
                                                 Sockets sockets);

}  // namespace plumbline::real
