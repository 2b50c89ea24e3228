// The control channel as a star of TCP connections. A thread of every rank listens, so that the end of one rank reaches
// all others while they wait for a device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/bootstrap/socket.h"
#include "real/executor/control_channel.h"

namespace plumbline::real {

// Of rank 0 to all others, in their order; of another rank to rank 0.
using Sockets = std::vector<std::unique_ptr<Socket>>;

// `wait_s`: how long an answer is waited for.
std::unique_ptr<ControlChannel> make_tcp_channel(std::int32_t rank, std::int32_t ranks, double wait_s, Sockets sockets);

// Infeasible: what went wrong between the ranks of a job.
model::Error job_error(std::string message, std::string hint = "");

}  // namespace plumbline::real
